# SPDX-License-Identifier: Apache-2.0
"""Test readers: any order of reads and seeks, lost connections, changed files, faulty servers."""

from __future__ import annotations

import errno
import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples
from torch_google import gfile
from torch_google.gfile.testing.backends import CONTENT, NAMES, QUICK, Flaky, backend, served
from torch_google.gfile.testing.cloud_servers import missing, new_bucket
from torch_google.gfile.testing.object_stores import Objects

_CONTENT = CONTENT["sub/a.bin"]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 5000)),
        st.tuples(st.just("seek"), st.integers(0, len(_CONTENT) + 100)),
        st.tuples(st.just("end"), st.integers(-len(_CONTENT), 0)),
        st.tuples(st.just("on"), st.integers(0, 3000)),
        st.tuples(st.just("into"), st.integers(0, 5000)),
    ),
    max_size=12,
)
_WRITES = st.lists(
    st.tuples(st.sampled_from("wa"), st.lists(st.binary(max_size=5000), max_size=4)), max_size=4
)


def _act(file: Any, step: tuple[str, int]) -> Any:
    action, number = step
    if action == "read":
        return file.read(number)
    if action == "into":
        piece = bytearray(number)
        return file.readinto(piece), bytes(piece)
    return file.seek(number, {"seek": os.SEEK_SET, "on": os.SEEK_CUR, "end": os.SEEK_END}[action])


@pytest.mark.parametrize("name", NAMES)
def test_any_order_is_as_with_a_file_of_this_machine(name: str, tmp_path: Path) -> None:
    with backend(name, tmp_path) as store:

        @settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
        @given(steps=_STEPS)
        def check(steps: list[tuple[str, int]]) -> None:
            with gfile.Open(store.path("sub/a.bin"), "rb") as file:
                plain = io.BufferedReader(io.BytesIO(_CONTENT))
                for step in steps:
                    assert _act(file, step) == _act(plain, step)
                    assert file.tell() == plain.tell()

        check()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("zip", "http")])
def test_any_writes_are_as_with_a_file_of_this_machine(name: str, tmp_path: Path) -> None:
    with backend(name, tmp_path) as store:

        @settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
        @given(sessions=_WRITES)
        def check(sessions: list[tuple[str, list[bytes]]]) -> None:
            path, plain = store.path("new"), tmp_path / "plain"
            plain.unlink(missing_ok=True)
            if gfile.Exists(path):
                gfile.Remove(path)
            for mode, pieces in sessions:
                with gfile.Open(path, f"{mode}b") as file, open(plain, f"{mode}b") as other:
                    for piece in pieces:
                        assert file.write(piece) == other.write(piece)
            assert gfile.Exists(path) == plain.exists()
            if sessions:
                with gfile.Open(path, "rb") as file:
                    assert file.read() == plain.read_bytes()
                assert gfile.Stat(path).length == plain.stat().st_size

        check()


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    with backend("flaky", tmp_path) as store:
        system: Flaky = gfile.schemes.filesystem_of(store.root)._system  # type: ignore[attr-defined]
        before = system.calls
        with gfile.Open(store.path("sub/a.bin"), "rb") as file:
            assert file.read() == _CONTENT
        assert system.calls - before > len(_CONTENT) // 1000 + 2, (
            "it must read in pieces and repeat some"
        )


class _Changing(AbstractFileSystem):
    """A filesystem that loses its connection, then serves a changed version of the file."""

    cachable = False
    versions: tuple[bytes, ...] = (b"a" * 3000, b"b" * 3001)
    opened = 0

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "type": "file", "size": 3000}

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        content = self.versions[min(self.opened, len(self.versions) - 1)]
        self.opened += 1
        return _Breaking(content)


class _Breaking(io.BytesIO):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.size = len(content)

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= 1000:
            raise TimeoutError("no answer")
        return super().read(1000)


def test_a_file_that_changes_while_it_is_read() -> None:
    gfile.register_scheme("changing", _Changing(), retry=QUICK, overwrite=True)
    with (
        gfile.Open("changing://file", "rb") as file,
        pytest.raises(OSError, match="it changed while it was read; open it again") as raised,
    ):
        file.read()
    assert raised.value.errno == errno.ESTALE


class _Blocks(Objects):
    """A store whose reader requests each block by file name, without a version, as gcsfs does."""

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return _BlockReader(self, path, mode, block_size=1000)


class _BlockReader(AbstractBufferedFile):
    def _fetch_range(self, start: int, end: int) -> bytes:
        content: bytes = self.fs.kept[self.path][start:end]
        return content


@pytest.mark.parametrize("scheme", ["blocks", "s3", "gs"])
def test_two_versions_are_not_mixed(scheme: str) -> None:
    """Each block is a separate request, so blocks could come from two versions of the file."""
    if scheme == "blocks":
        gfile.register_scheme("blocks", _Blocks(), overwrite=True)
        path, size = "blocks://bucket/file", 3 << 20
    else:
        if missing(scheme):
            pytest.skip(f"not installed: {', '.join(missing(scheme))}")
        # The size must exceed s3fs's read-ahead.
        path, size = f"{new_bucket(scheme)}/file", (60 if scheme == "s3" else 20) << 20
    for read in (lambda file: file.read(), lambda file: [*iter(lambda: file.read(1000), b"")]):
        with gfile.Open(path, "wb") as file:
            file.write(b"a" * size)
        with gfile.Open(path, "rb") as old:
            assert old.read(10) == b"a" * 10
            with gfile.Open(path, "wb") as file:
                file.write(b"b" * size)
            with pytest.raises(OSError, match="it changed while it was read") as raised:
                read(old)
            assert (raised.value.errno, raised.value.filename) == (errno.ESTALE, path)


def test_a_failure_that_does_not_pass() -> None:
    system = _Changing()
    system.versions = (b"a" * 3000,)
    gfile.register_scheme("breaking", system, retry=gfile.Retry(3, 0.001), overwrite=True)
    with gfile.Open("breaking://file", "rb") as file:
        assert file.read(1000) == b"a" * 1000
        with pytest.raises(TimeoutError, match=r"cannot read: .*no answer.*breaking://file"):
            file.read()
    assert system.opened == 3


class _Short(_Changing):
    """A filesystem whose connection ends early without an error."""

    versions = (b"a" * 3000,)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        file = io.BytesIO(b"a" * 1000)
        file.size = 3000  # type: ignore[attr-defined]
        return file


def test_an_early_end_is_no_end() -> None:
    gfile.register_scheme("short", _Short, retry=gfile.Retry(2, 0.001), overwrite=True)
    with (
        gfile.Open("short://file", "rb") as file,
        pytest.raises(gfile.TransientError, match="1000"),
    ):
        file.read()


# Tests of reading over HTTP.


@pytest.fixture(autouse=True)
def _quick() -> Any:
    with gfile.configured(retry=QUICK):
        yield


def test_a_server_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with served(tmp_path) as (url, server):
        # fsspec stats a file with HEAD, then GET. So four failures make two attempts fail.
        server.fail = 4
        with gfile.Open(f"{url}/file", "rb") as file:
            server.fail = 2
            assert file.read() == b"content"
        server.fail = 1000
        with pytest.raises(OSError, match="503") as raised:
            gfile.Open(f"{url}/file", "rb")
        assert not isinstance(raised.value, FileNotFoundError)
        requests = 1000 - server.fail
        assert requests >= QUICK.attempts


def test_what_is_not_there_is_asked_for_once(tmp_path: Path) -> None:
    class Counted(gfile.Retry):
        pass

    with served(tmp_path) as (url, _), gfile.configured(retry=Counted(6, first=60.0)):
        with pytest.raises(FileNotFoundError, match="gfile.ListDir"):
            gfile.Open(f"{url}/none", "rb")
        assert not gfile.Exists(f"{url}/none")


def test_a_server_without_ranges(tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "file").write_bytes(content)
    with served(tmp_path, streams=True) as (url, server):
        with gfile.Open(f"{url}/file", "rb") as file:
            assert file.seek(200_000) == 200_000
            assert file.read() == content[200_000:]
            file.seek(0)
            assert file.read(10) == content[:10]
        server.fail = 2
        with gfile.Open(f"{url}/file", "rb") as file:
            assert file.read() == content


@pytest.mark.parametrize("scheme", ["http", "mirror"])
def test_a_forked_process_reads_as_well(tmp_path: Path, scheme: str) -> None:
    from fsspec.implementations.http import HTTPFileSystem

    (tmp_path / "file").write_bytes(b"content")
    with served(tmp_path) as (url, _):
        gfile.register_scheme("mirror", _Mirror(url, HTTPFileSystem), overwrite=True)
        path = f"{url}/file" if scheme == "http" else "mirror://file"
        with gfile.Open(path, "rb") as file:
            assert file.read() == b"content"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with gfile.Open(path, "rb") as file:
                    status = int(file.read() != b"content")
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0


class _Mirror:
    """A factory for a filesystem that resolves its paths relative to a URL."""

    def __init__(self, url: str, base: Any) -> None:
        self._url, self._base = url, base

    def __call__(self) -> Any:
        url, base = self._url, self._base

        class Below(base):  # type: ignore[misc, valid-type] # base is an argument
            cachable = False

            @classmethod
            def _strip_protocol(cls, path: str) -> str:
                return path if "://" in path else f"{url}/{path}"

        return Below()


def test_no_server() -> None:
    with (
        gfile.configured(retry=gfile.Retry(2, 0.001)),
        pytest.raises(OSError, match="http://127.0.0.1:9/file"),
    ):
        gfile.Open("http://127.0.0.1:9/file", "rb")


# Tests of memory use.


def test_big_files_pass_through_little_memory(tmp_path: Path) -> None:
    size = 96 << 20
    with open(tmp_path / "big", "wb") as file:
        file.truncate(size)
    with backend("registered", tmp_path) as store:
        tracemalloc.start()
        try:
            gfile.Copy(tmp_path / "big", store.path("big"))
            gfile.Copy(store.path("big"), tmp_path / "copy")
            with gfile.Open(store.path("big"), "rb", checksum=None) as reader:
                assert len(reader.read(1 << 20)) == 1 << 20
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (tmp_path / "copy").stat().st_size == size
    assert peak < size // 2


def test_a_link_to_itself_is_not_there_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    (tmp_path / "file").write_text("there")
    assert not gfile.Exists(tmp_path / "link")
    assert not gfile.IsDirectory(tmp_path / "link")
    assert not gfile.Exists(tmp_path / ("n" * 300))
    assert gfile.ListDir(tmp_path) == ["file", "link"]
    assert gfile.Glob(f"{tmp_path}/f*") == [f"{tmp_path}/file"]


def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for directory in (tmp_path / "kept", top, top / "real"):
        directory.mkdir()
        (directory / "file").write_text("there")
    (top / "away").symlink_to("../kept")
    (top / "self").symlink_to(".")
    assert list(gfile.Walk(top)) == [
        (str(top), ["away", "real", "self"], ["file"]),
        (f"{top}/real", [], ["file"]),
    ]
    names = ["away", "file", "real", "real/file", "self"]
    assert gfile.Glob(f"{top}/**") == [str(top), *(f"{top}/{name}" for name in names)]
    assert gfile.Glob(f"{top}/**/file") == [f"{top}/file", f"{top}/real/file"]
    assert gfile.Glob(f"{top}/a*/file") == [f"{top}/away/file"], "a link before a name is followed"
    assert gfile.ListDir(top / "away") == ["file"]
    for directory, _, files in gfile.GPath(top).walk(top_down=False):
        for name in files:
            (directory / name).unlink()
    assert gfile.ListDir(tmp_path / "kept") == ["file"]


def test_a_relative_pattern_begins_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "b.pt", "sub/c.txt"):
        (tmp_path / name).write_text("there")
    assert gfile.Glob("*.txt") == ["a.txt"]
    assert gfile.Glob("**") == ["a.txt", "b.pt", "sub", "sub/c.txt"]
    assert gfile.Glob("**/*.txt") == ["a.txt", "sub/c.txt"]
    assert gfile.Glob("./*/c*") == ["./sub/c.txt"]
    assert list(gfile.GPath(".").glob("*.pt")) == [gfile.GPath("b.pt")]
    assert list(gfile.GPath(".").rglob("c.txt")) == [gfile.GPath("sub/c.txt")]


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_path_is_no_pattern_of_its_own_glob(tmp_path: Path, scheme: str) -> None:
    root = gfile.GPath(f"{scheme}{tmp_path}")
    for name in ("run1", "run[1]", "r*n"):
        (root / name / "sub").mkdir(parents=True, exist_ok=True)
        (root / name / "sub" / f"{name}.txt").write_text("there")
    for name in ("run[1]", "r*n"):
        path = root / name / "sub" / f"{name}.txt"
        for pattern in ("sub/*.txt", "./sub//*", "*/*"):
            assert list((root / name).glob(pattern)) == [path]
        assert list((root / name).rglob("*.txt")) == [path]
        assert list((root / name).glob("sub")) == [path.parent]
    assert list((root / "none").glob("*")) == []
