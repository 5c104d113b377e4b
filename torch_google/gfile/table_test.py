# SPDX-License-Identifier: Apache-2.0
"""Test behavior that must be the same on every backend."""

from __future__ import annotations

import contextlib
import errno
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from torch_google import gfile
from torch_google.gfile.testing.backends import CONTENT, NAMES, WRITABLE, Backend, backend


@pytest.fixture(params=NAMES)
def any_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend(request.param, tmp_path) as store:
        yield store


@pytest.fixture(params=WRITABLE)
def writable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend(request.param, tmp_path) as store:
        yield store


def _read(path: str) -> bytes:
    with gfile.Open(path, "rb") as file:
        return file.read()


def _write(path: str, content: bytes) -> None:
    with gfile.Open(path, "wb") as file:
        assert file.write(content) == len(content)


# Tests of reading, which run on every backend.


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_is_read(any_backend: Backend, name: str) -> None:
    assert _read(any_backend.path(name)) == CONTENT[name]


def test_text_is_read_by_lines(any_backend: Backend) -> None:
    with gfile.Open(any_backend.path("hello.txt")) as file:
        assert list(file) == ["hello, wörld\n", "second line\n"]
    with gfile.Open(any_backend.path("hello.txt"), encoding="latin-1") as file:
        assert file.readline() == "hello, wÃ¶rld\n"


def test_a_reader_seeks(any_backend: Backend) -> None:
    content = CONTENT["sub/a.bin"]
    with gfile.Open(any_backend.path("sub/a.bin"), "rb") as file:
        assert file.seekable()
        assert file.seek(300) == 300
        assert file.read(5) == content[300:305]
        assert file.seek(-7, 2) == len(content) - 7
        assert file.read() == content[-7:]
        assert (file.seek(0), file.tell()) == (0, 0)
        piece = bytearray(4000)
        assert cast(io.BufferedReader, file).readinto(piece) == 4000
        assert piece == content[:4000]


def test_two_readers_do_not_disturb_each_other(any_backend: Backend) -> None:
    path = any_backend.path("sub/a.bin")
    with gfile.Open(path, "rb") as one, gfile.Open(path, "rb") as other:
        assert one.read(100) == CONTENT["sub/a.bin"][:100]
        assert other.read(50) == CONTENT["sub/a.bin"][:50]
        assert one.read(100) == CONTENT["sub/a.bin"][100:200]


def test_a_reader_cannot_write(any_backend: Backend) -> None:
    with gfile.Open(any_backend.path("hello.txt"), "rb") as file, pytest.raises(OSError):
        file.write(b"x")


def test_status(any_backend: Backend) -> None:
    status = gfile.Stat(any_backend.path("sub/a.bin"))
    assert (status.length, status.is_directory) == (len(CONTENT["sub/a.bin"]), False)


def test_existence(any_backend: Backend) -> None:
    assert gfile.Exists(any_backend.path("hello.txt"))
    assert not gfile.Exists(any_backend.path("nothing.txt"))
    assert not gfile.Exists(any_backend.path("hello.txt/below"))
    assert not gfile.IsDirectory(any_backend.path("hello.txt"))
    assert not gfile.IsDirectory(any_backend.path("nothing"))
    assert gfile.IsDirectory(any_backend.path("sub/"))


def test_a_directory_is_listed(any_backend: Backend) -> None:
    assert gfile.ListDir(any_backend.path("sub")) == ["a.bin", "b.bin", "deep"]
    assert gfile.ListDir(any_backend.path("")) == ["hello.txt", "sub"]


def test_a_tree_is_walked(any_backend: Backend) -> None:
    top = any_backend.path("")
    entries = [(directories, files) for _, directories, files in gfile.Walk(top)]
    assert entries == [(["sub"], ["hello.txt"]), (["deep"], ["a.bin", "b.bin"]), ([], ["c.txt"])]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.txt", ["hello.txt"]),
        ("sub/?.bin", ["sub/a.bin", "sub/b.bin"]),
        ("s*/[a]*", ["sub/a.bin"]),
        ("*/deep/*", ["sub/deep/c.txt"]),
        ("**/*.txt", ["hello.txt", "sub/deep/c.txt"]),
        ("sub/**", ["sub", "sub/a.bin", "sub/b.bin", "sub/deep", "sub/deep/c.txt"]),
        ("hello.txt", ["hello.txt"]),
        ("none*", []),
        ("none", []),
        ("none/*", []),
    ],
)
def test_a_pattern_finds_paths(any_backend: Backend, pattern: str, names: list[str]) -> None:
    paths = gfile.Glob(any_backend.path(pattern))
    assert [path.rstrip("/") for path in paths] == [any_backend.path(name) for name in names]


@pytest.mark.parametrize(
    "action",
    [
        lambda path: gfile.Open(path, "rb"),
        gfile.Open,
        gfile.Stat,
        gfile.ListDir,
        lambda path: list(gfile.Walk(path)),
        lambda path: gfile.Copy(path, "memory://never"),
    ],
)
def test_what_is_not_there(any_backend: Backend, action: Callable[[str], object]) -> None:
    path = any_backend.path("sub/nothing")
    with pytest.raises(FileNotFoundError) as raised:
        action(path)
    assert raised.value.errno == errno.ENOENT
    assert raised.value.filename == path
    assert "ListDir" in str(raised.value)


def test_a_copy_to_memory_and_to_this_machine(any_backend: Backend, tmp_path: Path) -> None:
    for target in ("memory://copied", str(tmp_path / "copied")):
        gfile.Copy(any_backend.path("sub/a.bin"), target)
        assert _read(target) == CONTENT["sub/a.bin"]
        with pytest.raises(FileExistsError):
            gfile.Copy(any_backend.path("hello.txt"), target)
        gfile.Copy(any_backend.path("hello.txt"), target, overwrite=True)
        assert _read(target) == CONTENT["hello.txt"]
        gfile.Remove(target)


def test_a_checksum_that_is_not_there_is_named(any_backend: Backend) -> None:
    path = any_backend.path("hello.txt")
    with pytest.raises(FileNotFoundError, match=r"hello\.txt\.sha256"):
        gfile.Open(path, "rb", checksum="sha256")


@pytest.mark.parametrize("mode", ["r+", "rw", "", "wb+", "q", "bw"])
def test_a_mode_that_is_none(any_backend: Backend, mode: str) -> None:
    with pytest.raises(ValueError, match="give r, w, a or x"):
        gfile.Open(any_backend.path("hello.txt"), mode)


def test_an_encoding_that_is_none(any_backend: Backend) -> None:
    for mode in "rwax":
        with pytest.raises(LookupError, match="nonesuch"):
            gfile.Open(any_backend.path("hello.txt"), mode, encoding="nonesuch")


@pytest.mark.parametrize("name", ["zip", "http"])
def test_what_is_only_read_says_so(name: str, tmp_path: Path) -> None:
    with backend(name, tmp_path) as store:
        for action in (
            lambda path: gfile.Open(path, "wb"),
            lambda path: gfile.Open(path, "a"),
            gfile.Remove,
            gfile.DeleteRecursively,
            gfile.MakeDirs,
            lambda path: gfile.Rename(path, store.path("other")),
            lambda path: gfile.Copy("memory://never", path, overwrite=True),
        ):
            with pytest.raises(OSError) as raised:
                action(store.path("hello.txt"))
            assert raised.value.errno in (errno.EROFS, errno.ENOENT)


# Tests of writing, which run on every writable backend.


def test_a_file_is_written_and_replaced(writable: Backend) -> None:
    path = writable.path("new.bin")
    for content in (b"first", b"", b"x" * 3_000_000):
        _write(path, content)
        assert _read(path) == content
        assert gfile.Stat(path).length == len(content)


def test_text_is_written(writable: Backend) -> None:
    path = writable.path("new.txt")
    with gfile.Open(path, "w", encoding="utf-16", newline="\r\n") as file:
        file.write("ä\nb\n")
    assert _read(path).decode("utf-16") == "ä\r\nb\r\n"


def test_nothing_is_there_before_the_end(writable: Backend) -> None:
    path = writable.path("sub/new.bin")
    with gfile.Open(path, "wb") as file:
        file.write(b"x" * 1_000_000)
        file.flush()
        assert not gfile.Exists(path)
        assert gfile.ListDir(writable.path("sub")) == ["a.bin", "b.bin", "deep"]
    assert gfile.ListDir(writable.path("sub")) == ["a.bin", "b.bin", "deep", "new.bin"]


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_an_exception_leaves_the_older_file(writable: Backend, mode: str) -> None:
    path = writable.path("hello.txt")
    with contextlib.suppress(KeyError), gfile.Open(path, mode) as file:
        file.write("new" if mode == "w" else b"new")
        raise KeyError
    assert _read(path) == CONTENT["hello.txt"]


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_dropped_writer_leaves_the_older_file(
    writable: Backend, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = writable.path("hello.txt")
    file = gfile.Open(path, mode)
    file.write("new" if mode == "w" else b"new")
    del file
    assert _read(path) == CONTENT["hello.txt"]
    assert "dropped without close(), so it was not written" in caplog.text


def test_closing_twice_commits_once(writable: Backend) -> None:
    path = writable.path("new.bin")
    file = gfile.Open(path, "wb")
    file.write(b"one")
    file.close()
    _write(path, b"two")
    file.close()
    assert _read(path) == b"two"
    with pytest.raises(ValueError):
        file.write(b"three")


def test_append(writable: Backend) -> None:
    path = writable.path("log.txt")
    for line in ("a\n", "b\n", "c\n"):
        with gfile.Open(path, "a") as file:
            file.write(line)
    assert _read(path) == b"a\nb\nc\n"


def test_an_exclusive_file(writable: Backend) -> None:
    path = writable.path("once")
    with gfile.Open(path, "x") as file:
        file.write("mine")
    with pytest.raises(FileExistsError):
        gfile.Open(path, "x")
    assert _read(path) == b"mine"


def test_an_exclusive_file_that_another_made_meanwhile(writable: Backend) -> None:
    path = writable.path("once")
    file = gfile.Open(path, "xb")
    file.write(b"mine")
    _write(path, b"theirs")
    with pytest.raises(FileExistsError):
        file.close()
    assert _read(path) == b"theirs"


def test_checksums(writable: Backend) -> None:
    path = writable.path("weights")
    for content in (b"one", b"another"):
        with gfile.Open(path, "wb", checksum="sha256") as file:
            file.write(content)
        with gfile.Open(path, "rb", checksum="sha256") as file:
            assert file.read() == content
    assert len(_read(f"{path}.sha256").splitlines()) == 1
    _write(path, b"damaged")
    with pytest.raises(gfile.ChecksumError, match="restore the file"):
        gfile.Open(path, "rb", checksum="sha256")
    with pytest.raises(ValueError, match="use one of blake2b, sha256, sha512"):
        gfile.Open(path, "rb", checksum="crc")


def test_directories(writable: Backend) -> None:
    path = writable.path("made/below")
    gfile.MakeDirs(path)
    gfile.MakeDirs(path)
    _write(f"{path}/file", b"x")
    assert gfile.IsDirectory(path)
    with pytest.raises(FileExistsError):
        gfile.MakeDir(path)
    with pytest.raises(FileNotFoundError):
        gfile.MakeDir(writable.path("none/below"))
    with pytest.raises(NotADirectoryError):
        gfile.MakeDirs(f"{path}/file")
    with pytest.raises(NotADirectoryError):
        gfile.ListDir(f"{path}/file")
    with pytest.raises(IsADirectoryError):
        gfile.Open(path, "wb")
    with pytest.raises(IsADirectoryError):
        gfile.Remove(path)
    gfile.DeleteRecursively(writable.path("made"))
    assert not gfile.Exists(path)
    assert gfile.Exists(writable.path("hello.txt"))


def test_removing(writable: Backend) -> None:
    path = writable.path("hello.txt")
    gfile.Remove(path)
    assert not gfile.Exists(path)
    for action in (gfile.Remove, gfile.DeleteRecursively):
        with pytest.raises(FileNotFoundError):
            action(path)


def test_renaming(writable: Backend) -> None:
    old, new = writable.path("hello.txt"), writable.path("sub/renamed.txt")
    gfile.Rename(old, new)
    assert not gfile.Exists(old)
    assert _read(new) == CONTENT["hello.txt"]
    _write(old, b"other")
    with pytest.raises(FileExistsError):
        gfile.Rename(old, new)
    gfile.Rename(old, new, overwrite=True)
    assert _read(new) == b"other"
    with pytest.raises(FileNotFoundError):
        gfile.Rename(old, new, overwrite=True)
    gfile.Rename(writable.path("sub"), writable.path("moved"))
    assert _read(writable.path("moved/deep/c.txt")) == b"c"
    assert not gfile.Exists(writable.path("sub"))
    with pytest.raises(OSError, match=r"gfile\.Copy") as raised:
        gfile.Rename(writable.path("moved/a.bin"), "zip://a::b.zip")
    assert raised.value.errno == errno.EXDEV


def test_a_missing_directory(writable: Backend) -> None:
    """A local file needs an existing directory; in a store, file names imply directories."""
    path = writable.path("not/made/file")
    if writable.real_directories:
        with pytest.raises(FileNotFoundError):
            gfile.Open(path, "wb")
    else:
        _write(path, b"x")
        assert _read(path) == b"x"


def test_paths_are_joined(any_backend: Backend) -> None:
    root = gfile.GPath(any_backend.path(""))
    path = root / "sub" / "deep" / "c.txt"
    assert path.read_text() == "c"
    assert (path.name, path.suffix, path.stem) == ("c.txt", ".txt", "c")
    assert (path.parent / "c.txt").exists()
    assert [each.name for each in (root / "sub").iterdir()] == ["a.bin", "b.bin", "deep"]
    assert [each.read_text() for each in (root / "sub").glob("*/*.txt")] == ["c"]
    with gfile.Open(path, "rb") as file:
        assert file.read() == b"c"
