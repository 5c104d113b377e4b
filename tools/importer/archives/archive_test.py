# SPDX-License-Identifier: Apache-2.0
"""Test that archives produce the expected trees, and that dangerous members are rejected."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.archives.archive import write_tree
from tools.importer.archives.zip_tree import ArchiveSnapshot
from tools.importer.errors import UserError
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, Blob
from tools.par.testing.budget import examples

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:xz") -> Path:
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def _file(name: str, data: bytes = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mode = mode
    return info, data


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def _special(name: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    return info, b""


def _open(archive: Path, out: Path) -> ArchiveSnapshot:
    write_tree(archive, archive.name, out)
    return ArchiveSnapshot(out, label="v1", pin={"kind": "tarball"})


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("top", ["pytorch-v1/", "./", ""])
def test_a_tar_of_any_compression(tmp_path: Path, mode: str, top: str) -> None:
    archive = _tar(
        tmp_path / "a.tar",
        _special(top.rstrip("/") or "torch", tarfile.DIRTYPE),
        _file(f"{top}torch/x.py", b"x\r\n"),
        _file(f"{top}run", b"#!", 0o755),
        _link(f"{top}torch/link", "../run"),
        _link(f"{top}same", f"{top}run", tarfile.LNKTYPE),
        _special(f"{top}third_party/fmt", tarfile.DIRTYPE),
        mode=mode,
    )
    tree = _open(archive, tmp_path / "out.zip")
    assert sorted(tree.paths()) == ["run", "same", "torch/link", "torch/x.py"]
    assert tree.read("torch/x.py") == Blob(b"x\r\n", REGULAR)
    assert tree.read("same") == tree.read("run") == Blob(b"#!", EXECUTABLE)
    assert tree.read("torch/link") == Blob(b"../run", SYMLINK)
    assert tree.read("torch") is None
    assert tree.carries("torch/gone.py")
    assert not tree.carries("third_party/fmt/CMakeLists.txt"), "an empty directory is a submodule"
    assert tree.commit is None


def test_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("top/x.py", b"x")
        link = zipfile.ZipInfo("top/link")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "x.py")
        packed.comment = _COMMIT.encode()
    tree = _open(tmp_path / "a.zip", tmp_path / "out.zip")
    assert tree.read("link") == Blob(b"x.py", SYMLINK)
    assert tree.read("x.py") == Blob(b"x", REGULAR)
    assert tree.commit == _COMMIT


def test_the_commit_that_git_archive_writes(tmp_path: Path) -> None:
    with tarfile.open(
        tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": _COMMIT}
    ) as tar:
        tar.addfile(tarfile.TarInfo("top/x.py"))
    assert _open(tmp_path / "a.tar", tmp_path / "out.zip").commit == _COMMIT


def test_a_checkout_comes_without_gits_files(tmp_path: Path) -> None:
    files = [
        _file(name) for name in ("t/.git/config", "t/x", "t/third_party/fmt/.git", "t/.github/y")
    ]
    tree = _open(_tar(tmp_path / "a.tar", *files), tmp_path / "out.zip")
    assert set(tree.paths()) == {"x", ".github/y"}


def test_a_package_alone_is_no_top_directory(tmp_path: Path) -> None:
    archive = _tar(tmp_path / "a.tar", _file("torch/__init__.py"), _file("torch/x.py"))
    assert set(_open(archive, tmp_path / "out.zip").paths()) == {"torch/__init__.py", "torch/x.py"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([_file("/etc/passwd")], r"a\.tar: the path '/etc/passwd' is absolute"),
        ([_file("top/../../x"), _file("top/y")], r"'top/\.\./\.\./x' has '\.\.' in it"),
        ([_file("top//x")], "'top//x' is not a plain path"),
        ([_file("top/x"), _link("top/l", "/etc/passwd")], "'l' leads out of the tree, to '/etc"),
        ([_file("top/x"), _link("top/l", "../x")], r"'l' leads out of the tree, to '\.\./x'"),
        ([_file("t/x"), _link("t/a/l", "../../../x")], "'a/l' leads out of the tree"),
        ([_file("t/x"), _link("t/l", "."), _file("t/l/y")], "'t/l/y' lies below 't/l'"),
        (
            [_file("t/x"), _link("t/l", "t/nope", tarfile.LNKTYPE)],
            "a link to 't/nope', which is not",
        ),
        (
            [_file("t/x"), _link("t/l", "../../x", tarfile.LNKTYPE)],
            r"'\.\./\.\./x' has '\.\.' in it",
        ),
        ([_file("t/x"), _file("t/x")], "'t/x' is in it twice"),
        ([_file("t/x"), _special("t/p", tarfile.FIFOTYPE)], "neither file, link nor directory"),
        ([_file("t/x"), _special("t/p", tarfile.CHRTYPE)], "neither file, link nor directory"),
        ([_file("t/\udcff")], "is not UTF-8"),
        ([_special("t", tarfile.DIRTYPE)], "no file in it"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], message: str
) -> None:
    archive = _tar(tmp_path / "a.tar", *members)
    with pytest.raises(UserError, match=message) as caught:
        _open(archive, tmp_path / "out.zip")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("a.tar", "out.zip")] == []


def _truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@pytest.mark.parametrize("damage", [_truncate, lambda data: b"no archive", lambda data: b""])
def test_a_damaged_archive(tmp_path: Path, mode: str, damage: Callable[[bytes], bytes]) -> None:
    members = [_file(f"t/{number}", bytes(range(256)) * 50) for number in range(9)]
    archive = _tar(tmp_path / "a.tar", *members, mode=mode)
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(UserError, match=r"a\.tar: not a whole archive .* Get it again") as caught:
        _open(archive, tmp_path / "out.zip")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_tar_cut_between_two_files(tmp_path: Path, keep: int) -> None:
    members = [_file(f"t/{number}", b"\0" * 512) for number in range(3)]
    archive = _tar(tmp_path / "a.tar", *members, mode="w")
    archive.write_bytes(archive.read_bytes()[: keep * 1024])
    with pytest.raises(UserError, match="not a whole archive .*its end is missing"):
        _open(archive, tmp_path / "out.zip")


_NAMES = st.text("abcdé .-", min_size=1, max_size=5).filter(lambda name: set(name) - {".", " "})
_TREES = st.dictionaries(
    st.lists(_NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.binary(max_size=40), st.booleans()),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(25), deadline=None)
@given(_TREES)
def test_any_tree_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, tuple[bytes, bool]]
) -> None:
    files = {
        path: content
        for path, content in tree.items()
        if not any(other.startswith(f"{path}/") for other in tree)
    }
    directory = tmp_path_factory.mktemp("tree")
    members = [
        _file(f"top/{path}", data, 0o755 if executable else 0o644)
        for path, (data, executable) in files.items()
    ]
    # `other/` next to `top/` means that the archive has no top-level directory to strip.
    archive = _open(_tar(directory / "a.tar", *members, _file("other/x")), directory / "out.zip")
    assert set(archive.paths()) == {"other/x", *(f"top/{path}" for path in files)}
    for path, (data, executable) in files.items():
        assert archive.read(f"top/{path}") == Blob(data, EXECUTABLE if executable else REGULAR)
