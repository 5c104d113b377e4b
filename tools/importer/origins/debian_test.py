# SPDX-License-Identifier: Apache-2.0
"""Run apt on a small archive of source packages created by the tests."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tools.bazel.apt_origin import Origin
from tools.importer.errors import EnvironmentProblem
from tools.importer.origins.cache import Cache
from tools.importer.origins.debian import DebianOrigin, left_out
from tools.importer.origins.debian_source import DebianArchive, upstream_version
from tools.importer.origins.origin import NotHereError, Revision
from tools.importer.origins.origin_fixtures import Lines
from tools.importer.snapshot import EXECUTABLE, Blob

_APT = shutil.which("apt-get") and Path("/usr/lib/apt/apt-helper").exists()
needs_apt = pytest.mark.skipif(not _APT, reason="no apt on this machine")

_COPYRIGHT = b"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Files-Excluded:
  .ci/*
  third_party/fmt/*
  docs/*.pdf
Comment: none

Files: *
"""


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("2.6.0+dfsg-7", "2.6.0"),
        ("1:2.14.1+dfsg1-1~exp2", "2.14.1"),
        ("2.14.0~rc3-1", "2.14.0rc3"),
        ("2.14.0~rc3+ds-1", "2.14.0rc3"),
        ("1.13.1", "1.13.1"),
        ("2.0.1-a-1", "2.0.1-a"),
    ],
)
def test_upstream_versions(version: str, upstream: str) -> None:
    assert upstream_version(version) == upstream


def test_what_debian_leaves_out() -> None:
    absent = left_out(_COPYRIGHT.decode())
    for path in (
        ".ci/a/b",
        "third_party/fmt/x.h",
        "docs/a/b.pdf",
        "a/.gitignore",
    ):
        assert absent(path), path
    for path in ("third_party/new.h", "third_party/fmtx/y", "docs/a.md", "torch/x.py", ".ci.md"):
        assert not absent(path), path
    assert not left_out("Files: *\n")("third_party/x")


@pytest.fixture(name="mirror")
def _mirror() -> Iterator[Path]:
    """Create a mirror. Its path is short, because apt derives file names from entire URLs."""
    with tempfile.TemporaryDirectory(prefix="apt.", dir="/tmp") as directory:
        root = Path(directory)
        _publish(root, "stable", "2.6.0+dfsg-7")
        _publish(root, "testing", "2.14.1+dfsg-1")
        yield root


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755 if name.endswith("run") else 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _publish(root: Path, suite: str, version: str) -> None:
    upstream = version.rpartition("-")[0]
    top = f"pytorch-v{upstream}"
    files = {
        f"pytorch_{upstream}.orig.tar.xz": _tar(
            {f"{top}/torch/x.py": version.encode(), f"{top}/run": b"#!", f"{top}/test/t.py": b""}
        ),
        f"pytorch_{version}.debian.tar.xz": _tar({"debian/copyright": _COPYRIGHT}),
        f"pytorch_{version}.dsc": b"Format: 3.0 (quilt)\n",
    }
    pool = root / "pool/main/p/pytorch"
    pool.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (pool / name).write_bytes(data)
    md5 = "".join(
        f"\n {hashlib.md5(data, usedforsecurity=False).hexdigest()} {len(data)} {name}"
        for name, data in files.items()
    )
    sha256 = "".join(
        f"\n {hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in files.items()
    )
    index = root / f"dists/{suite}/main/source/Sources"
    index.parent.mkdir(parents=True)
    index.write_text(
        f"Package: pytorch\nBinary: python3-torch\nVersion: {version}\nFormat: 3.0 (quilt)\n"
        f"Architecture: any\nDirectory: pool/main/p/pytorch\nFiles:{md5}\nChecksums-Sha256:{sha256}\n"
    )
    text = index.read_bytes()
    (index.parents[2] / "Release").write_text(
        f"Suite: {suite}\nArchitectures: amd64\nComponents: main\n"
        f"SHA256:\n {hashlib.sha256(text).hexdigest()} {len(text)} main/source/Sources\n"
    )


def _origin(
    cache: Path, mirror: Path, suites: tuple[str, ...] = ("stable", "testing")
) -> DebianOrigin:
    # With `copy:`, apt copies files to its cache, as it does with `http:`. With `file:`, it would
    # use the mirror's files in place.
    machine = [Origin(f"copy:{mirror}", trusted="yes")]
    archive = DebianArchive(Cache(cache), origins=machine, suites=suites)
    return DebianOrigin("pytorch", Cache(cache), Lines(), archive=archive)


@needs_apt
def test_the_suite_that_has_the_version(tmp_path: Path, mirror: Path) -> None:
    for tag, version in (("v2.6.0", "2.6.0+dfsg-7"), ("v2.14.1", "2.14.1+dfsg-1")):
        tree = _origin(tmp_path, mirror).find(Revision(tag=tag))
        assert sorted(tree.paths()) == ["run", "test/t.py", "torch/x.py"]
        assert tree.read("torch/x.py") == Blob(version.encode())
        assert tree.read("run") == Blob(b"#!", EXECUTABLE)
        assert (tree.label, tree.commit, tree.natives) == (tag, None, False)
        assert tree.pin["version"] == version
        assert tree.carries("torch/gone.py")
        assert not tree.carries("third_party/fmt/x.h")
        assert not tree.carries(".gitmodules")


@needs_apt
def test_the_pin_names_files_and_hashes(tmp_path: Path, mirror: Path) -> None:
    tree = _origin(tmp_path, mirror).find(Revision(tag="v2.6.0"))
    pool = mirror / "pool/main/p/pytorch"
    names = ("pytorch_2.6.0+dfsg.orig.tar.xz", "pytorch_2.6.0+dfsg-7.debian.tar.xz")
    assert tree.pin == {
        "kind": "debian",
        "tag": "v2.6.0",
        "package": "pytorch",
        "version": "2.6.0+dfsg-7",
        "files": {name: hashlib.sha256((pool / name).read_bytes()).hexdigest() for name in names},
    }


@needs_apt
def test_a_pin_needs_the_pool_only_and_then_nothing(tmp_path: Path, mirror: Path) -> None:
    pin = _origin(tmp_path / "one", mirror).find(Revision(tag="v2.6.0")).pin
    shutil.rmtree(mirror / "dists")
    again = _origin(tmp_path / "two", mirror).open(pin)
    assert again.read("torch/x.py") == Blob(b"2.6.0+dfsg-7")
    shutil.rmtree(mirror / "pool")
    assert _origin(tmp_path / "two", mirror).open(pin).read("run") == Blob(b"#!", EXECUTABLE)
    with pytest.raises(
        EnvironmentProblem, match=r"orig\.tar\.xz, sha256 .*Where Debian has moved on"
    ):
        _origin(tmp_path / "three", mirror).open(pin)


@needs_apt
def test_other_bytes_in_the_pool_are_refused(tmp_path: Path, mirror: Path) -> None:
    pin = _origin(tmp_path / "one", mirror).find(Revision(tag="v2.6.0")).pin
    file = mirror / "pool/main/p/pytorch/pytorch_2.6.0+dfsg.orig.tar.xz"
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(EnvironmentProblem, match="Hash Sum mismatch") as caught:
        _origin(tmp_path / "two", mirror).open(pin)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "two").glob("files/*"))


@needs_apt
def test_a_version_that_debian_does_not_have(tmp_path: Path, mirror: Path) -> None:
    with pytest.raises(NotHereError, match=r"no pytorch 2\.13\.0 in Debian's stable, testing") as e:
        _origin(tmp_path, mirror).find(Revision(tag="v2.13.0"))
    assert e.value.known == ("v2.6.0", "v2.14.1")
    with pytest.raises(NotHereError, match="main is not the tag of a release"):
        _origin(tmp_path, mirror).find(Revision(ref="main"))


@needs_apt
def test_a_mirror_out_of_reach(tmp_path: Path) -> None:
    nowhere = Path("/nowhere")
    with pytest.raises(EnvironmentProblem, match=r"stable at copy:/nowhere: apt-get: exit 100: E:"):
        _origin(tmp_path, nowhere, ("stable",)).find(Revision(tag="v2.6.0"))


@needs_apt
def test_the_machines_apt_is_not_touched(tmp_path: Path, mirror: Path) -> None:
    def state() -> str:
        command = ["apt-config", "dump"]
        lists = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        places = (Path("/var/lib/apt/lists"), Path("/var/cache/apt"), Path("/etc/apt"))
        return lists + "".join(
            f"{path} {path.stat().st_mtime_ns}\n" for place in places for path in place.rglob("*")
        )

    before = state()
    _origin(tmp_path, mirror).find(Revision(tag="v2.6.0"))
    assert state() == before
