# SPDX-License-Identifier: Apache-2.0
"""Test with a real apt and a small local archive."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.bazel import command
from tools.bazel.apt_origin import Origin
from tools.bazel.private_apt import MissingPackageError, PrivateApt

pytestmark = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-deb")), reason="no apt on this machine"
)


@pytest.fixture
def archive() -> Iterator[Path]:
    """Yield an archive in apt's layout, with the packages `one` and `two` in the `testing` suite.

    Its path is short, because apt turns the archive's whole URI into one file name.
    """
    with tempfile.TemporaryDirectory(prefix="apt.", dir="/tmp") as directory:
        yield _make_archive(Path(directory))


def _make_archive(root: Path) -> Path:
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    records = [_package(root, name, architecture) for name in ("one", "two")]
    index = root / f"dists/testing/main/binary-{architecture}/Packages"
    index.parent.mkdir(parents=True)
    index.write_text("\n".join(records))
    data = index.read_bytes()
    (root / "dists/testing/Release").write_text(
        f"Suite: testing\nArchitectures: {architecture}\nComponents: main\n"
        f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} "
        f"{index.relative_to(root / 'dists/testing')}\n"
    )
    return root


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def _package(root: Path, name: str, architecture: str) -> str:
    control = (
        f"Package: {name}\nVersion: 1:1.0-1\nSection: devel\nArchitecture: {architecture}\n"
        f"Maintainer: Nobody <nobody@example.com>\nDescription: test\n"
    )
    tree = root / "trees" / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(control)
    (tree / "data").write_text(name)
    deb = root / "pool" / f"{name}.deb"
    deb.parent.mkdir(exist_ok=True)
    subprocess.run(["dpkg-deb", "--build", tree, deb], check=True, capture_output=True)
    data = deb.read_bytes()
    return (
        f"{control}Filename: pool/{deb.name}\nSize: {len(data)}\n"
        f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
    )


def _apt(tmp_path: Path, archive: Path, lock: int, *, suite: str = "testing") -> PrivateApt:
    # apt's `copy:` method copies files, as `http:` does, whereas `file:` would use the originals.
    origin = Origin(f"copy:{archive}", trusted="yes")
    return PrivateApt(tmp_path / "state", origin=origin, suite=suite, lock=lock)


def test_update_index_download(tmp_path: Path, archive: Path, lock: int) -> None:
    apt = _apt(tmp_path, archive, lock)
    apt.update()
    assert apt.index(names=["one"]).packages["one"].version == "1:1.0-1"
    debs = apt.download(["one", "two"], into=tmp_path / "debs")
    for deb, name in zip(debs, ("one", "two"), strict=True):
        assert deb.read_bytes() == (archive / f"pool/{name}.deb").read_bytes()


def _publish_source(root: Path) -> dict[str, str]:
    """Add the source package `three` to the `testing` suite, and return the hashes of its files."""
    files = {"three_1.0.orig.tar.xz": b"upstream", "three_1.0-1.dsc": b"description"}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for name, data in files.items():
        (root / "pool" / name).write_bytes(data)
    rows = "".join(f"\n {sums[name]} {len(data)} {name}" for name, data in files.items())
    md5 = "".join(
        f"\n {hashlib.md5(data, usedforsecurity=False).hexdigest()} {len(data)} {name}"
        for name, data in files.items()
    )
    index = root / "dists/testing/main/source/Sources"
    index.parent.mkdir(parents=True)
    index.write_text(
        "Package: three\nBinary: one\nVersion: 1.0-1\nFormat: 3.0 (quilt)\nDirectory: pool\n"
        f"Files:{md5}\nChecksums-Sha256:{rows}\n"
    )
    data = index.read_bytes()
    with (root / "dists/testing/Release").open("a") as release:
        release.write(f" {hashlib.sha256(data).hexdigest()} {len(data)} main/source/Sources\n")
    return sums


def test_source_packages(tmp_path: Path, archive: Path, lock: int) -> None:
    sums = _publish_source(archive)
    origin = Origin(f"copy:{archive}", trusted="yes")
    apt = PrivateApt(tmp_path / "state", origin=origin, suite="testing", lock=lock, sources=True)
    apt.update()
    assert apt.source_versions("three") == ["1.0-1"]
    files = apt.source_files("three", "1.0-1")
    assert {file.name: file.sha256 for file in files.values()} == sums
    assert f"copy:{archive}/pool/three_1.0-1.dsc" in files
    # `one` is only a binary package, built from the source package `three`.
    with pytest.raises(MissingPackageError, match=r"^no source package one$"):
        apt.source_versions("one")


def test_a_good_file_is_kept_and_a_part_is_fetched_again(
    tmp_path: Path, archive: Path, lock: int
) -> None:
    apt = _apt(tmp_path, archive, lock)
    apt.update()
    one, two = apt.download(["one", "two"], into=tmp_path / "debs")
    two.write_bytes(two.read_bytes()[:100])
    before = one.stat()
    (archive / "pool/one.deb").unlink()  # a second download of this file would fail
    apt.download(["one", "two"], into=tmp_path / "debs")
    assert one.stat().st_mtime_ns == before.st_mtime_ns
    assert two.read_bytes() == (archive / "pool/two.deb").read_bytes()


def test_bytes_other_than_the_index_says_are_refused(
    tmp_path: Path, archive: Path, lock: int
) -> None:
    apt = _apt(tmp_path, archive, lock)
    apt.update()
    deb = archive / "pool/one.deb"
    deb.write_bytes(b"x" * deb.stat().st_size)
    with pytest.raises(command.CommandError, match=r"^apt-get: exit 100: .*Hash Sum mismatch"):
        apt.download(["one"], into=tmp_path / "debs")


def test_a_missing_package_is_named(tmp_path: Path, archive: Path, lock: int) -> None:
    apt = _apt(tmp_path, archive, lock)
    apt.update()
    with pytest.raises(MissingPackageError, match=r"^no package three, four$"):
        apt.index(names=["one", "three", "four"])


def test_a_missing_suite_is_an_error(tmp_path: Path, archive: Path, lock: int) -> None:
    with pytest.raises(command.CommandError, match=r"^apt-get: exit 100: E: .*dists/unstable"):
        _apt(tmp_path, archive, lock, suite="unstable").update()


def test_the_machine_state_is_not_used(tmp_path: Path, archive: Path, lock: int) -> None:
    apt = _apt(tmp_path, archive, lock)
    apt.update()
    # libc6 is in every host's own package index, but not in the test's archive.
    with pytest.raises(MissingPackageError):
        apt.index(names=["libc6"])
