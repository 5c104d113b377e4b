# SPDX-License-Identifier: Apache-2.0
"""Test concurrent and killed writers, failed uploads, and checksums."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from torch_google import gfile
from torch_google.gfile import checksum
from torch_google.gfile.local import LocalFilesystem
from torch_google.gfile.partial import LITTER, machine
from torch_google.gfile.schemes import filesystem_of
from torch_google.gfile.testing.backends import Parts, backend


def _partial(name: str, number: int) -> str:
    return f".{name}.partial-{machine()}-{number}"


def _write(path: object, content: bytes, **options: Any) -> None:
    with gfile.Open(str(path), "wb", **options) as file:
        file.write(content)


# Tests of local files.


def test_two_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with gfile.Open(path, "wb") as one, gfile.Open(path, "wb") as other:
        one.write(b"one")
        other.write(b"other")
        assert sorted(os.listdir(tmp_path)) == [_partial("file", 0), _partial("file", 1)]
        assert gfile.ListDir(tmp_path) == []
    assert path.read_bytes() == b"one", "the outer writer closed last"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", ["w", "wb"])
@pytest.mark.parametrize("scheme", ["", "memory://"])
@pytest.mark.parametrize("end", ["dropped", "closed", "discarded"])
def test_a_forked_process_leaves_its_parents_file_alone(
    tmp_path: Path, scheme: str, mode: str, end: str
) -> None:
    path = f"{scheme}{tmp_path}/file"
    head, tail = ("head ", "tail") if mode == "w" else (b"head ", b"tail")
    file: Any = gfile.Open(path, mode)
    file.write(head)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if end == "closed":
                with pytest.raises(ValueError, match="a fork of"):
                    file.close()
            elif end == "discarded":
                file.discard()
            del file
            status = int(gfile.Exists(path))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    file.write(tail)
    file.close()
    assert gfile.Open(path).read() == "head tail"


def test_many_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(number: int) -> None:
        for _ in range(20):
            _write(path, bytes([number]) * 50_000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    with gfile.configured(sync=False):
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if path.exists():
                content = path.read_bytes()
                assert (len(content), len(set(content))) == (50_000, 1)
        for thread in threads:
            thread.join()
    assert os.listdir(tmp_path) == ["file"]


def test_a_killed_writer_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    _write(path, b"older")
    child = os.fork()
    if child == 0:
        file = gfile.Open(path, "wb")
        file.write(b"x" * 1_000_000)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert sorted(os.listdir(tmp_path)) == [_partial("file", 0), "file"]
    assert gfile.ListDir(tmp_path) == ["file"]
    assert path.read_bytes() == b"older"
    with gfile.Open(path, "wb") as file:
        file.write(b"new")
        assert sorted(os.listdir(tmp_path)) == [_partial("file", 0), "file"]
        assert (tmp_path / _partial("file", 0) / "file").stat().st_size == 0
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"new"


def test_sweeping_takes_only_what_nobody_writes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        child = os.fork()
        if child == 0:
            file = gfile.Open(tmp_path / name, "wb")
            file.write(b"x")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
    (tmp_path / _partial("file", 7)).write_bytes(b"a file with that name")
    with gfile.Open(tmp_path / "three", "wb") as file:
        assert len(os.listdir(tmp_path)) == 4
        gfile.Sweep(tmp_path)
        assert sorted(os.listdir(tmp_path)) == [_partial("file", 7), _partial("three", 0)]
        file.write(b"whole")
    assert (tmp_path / "three").read_bytes() == b"whole"
    gfile.Sweep("memory://")
    with pytest.raises(FileNotFoundError):
        gfile.Sweep(tmp_path / "none")


@pytest.mark.parametrize("owner", ["0123456789ab-", ""])
def test_what_another_machine_writes_stays_until_it_is_old(tmp_path: Path, owner: str) -> None:
    """Other machines' locks are invisible here, so their temporary directories stay for a day.

    A temporary directory without a machine ID in its name may belong to any machine.
    """
    other = tmp_path / f".file.partial-{owner}0"
    other.mkdir()
    other.chmod(0o1700)  # writers create their directories with this mode
    (other / "file").write_bytes(b"unfinished")
    with gfile.Open(tmp_path / "file", "wb") as file:
        file.write(b"whole")
        gfile.Sweep(tmp_path)
        assert sorted(os.listdir(tmp_path)) == sorted([other.name, _partial("file", 0)])
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert (other / "file").read_bytes() == b"unfinished"
    assert gfile.ListDir(tmp_path) == ["file"]
    long_ago = time.time() - LITTER - 60
    os.utime(other, (long_ago, long_ago))
    gfile.Sweep(tmp_path)
    assert other.exists(), "its file is not old yet"
    os.utime(other / "file", (long_ago, long_ago))
    gfile.Sweep(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_filesystem_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks, an existing directory may be in use, so each writer creates a unique one."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    (tmp_path / _partial("file", 0)).mkdir()
    _write(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert sorted(os.listdir(tmp_path)) == [_partial("file", 0), "file"]


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    for name in ("n" * 255, "ä" * 127, "partial", ".partial-0", "a b\n*"):
        _write(tmp_path / name, b"x")
        assert (tmp_path / name).read_bytes() == b"x"


def test_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o026)
    try:
        _write(tmp_path / "new", b"")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    os.chmod(tmp_path / "new", 0o4751)
    _write(tmp_path / "new", b"x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o4751


def test_a_file_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    _write(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"x"


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    _write(tmp_path / "pipe", b"through")
    reader.join(300)
    assert received == [b"through"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_writer_seeks_and_has_a_descriptor(tmp_path: Path) -> None:
    with gfile.Open(tmp_path / "file", "wb") as file:
        file.write(b"0123456789")
        file.seek(3)
        file.write(b"abc")
        assert file.name == str(tmp_path / "file")
        os.fsync(file.fileno())
    assert (tmp_path / "file").read_bytes() == b"012abc6789"


def test_a_full_disk_leaves_the_older_file(tmp_path: Path) -> None:
    _write(tmp_path / "file", b"older")
    file = gfile.Open(tmp_path / "file", "wb")
    os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
    file.write(b"new")
    with pytest.raises(OSError) as raised:
        file.close()
    assert raised.value.errno == errno.ENOSPC
    assert (tmp_path / "file").read_bytes() == b"older"
    assert os.listdir(tmp_path) == ["file"]


# Tests of uploads to stores.


def _parts(root: str) -> Parts:
    system: Parts = filesystem_of(root)._system  # type: ignore[attr-defined]
    return system


def test_an_upload_that_fails_half_way_is_done_again(tmp_path: Path) -> None:
    with backend("parts", tmp_path) as store:
        system = _parts(store.root)
        for part in range(4):
            system.fail_part = part
            content = os.urandom(20 << 20)
            _write(store.path("big"), content)
            assert vars(system)["fail_part"] is None, "the upload must have failed once"
            with gfile.Open(store.path("big"), "rb") as file:
                assert file.read() == content
        assert system.uploads == {}


def test_an_upload_that_is_given_up_leaves_the_older_file(tmp_path: Path) -> None:
    with backend("parts", tmp_path) as store:
        system = _parts(store.root)
        _write(store.path("big"), b"older")
        upload = type(system)._open

        def fail(self: Parts, path: str, mode: str = "rb", **options: Any) -> Any:
            self.fail_part = 1 if mode == "wb" else None
            return upload(self, path, mode, **options)

        system._open = fail.__get__(system)  # type: ignore[method-assign]
        with pytest.raises(TimeoutError, match="the part was not acknowledged"):
            _write(store.path("big"), os.urandom(20 << 20))
        del system._open
        with gfile.Open(store.path("big"), "rb") as file:
            assert file.read() == b"older"
        assert system.uploads == {}


def test_what_grows_in_sight_is_renamed(tmp_path: Path) -> None:
    with backend("registered", tmp_path) as store:
        directory = tmp_path / "kept" / "box"
        _write(store.path("file"), b"older")
        system: Any = filesystem_of(store.root)
        put = type(system._system).put_file

        def cut(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        type(system._system).put_file = cut
        try:
            with pytest.raises(OSError, match="make room"):
                _write(store.path("file"), os.urandom(1 << 20))
        finally:
            type(system._system).put_file = put
        assert (directory / "file").read_bytes() == b"older"
        assert not list(directory.glob(".file.partial-*"))


# Tests of checksums.


@pytest.mark.parametrize("algorithm", checksum.ALGORITHMS)
def test_checksums_are_those_of_the_usual_programs(tmp_path: Path, algorithm: str) -> None:
    _write(tmp_path / "file", b"content", checksum=algorithm)
    digest = checksum.digest(io.BytesIO(b"content"), algorithm)
    assert (tmp_path / f"file.{algorithm}").read_text() == f"{digest}  file\n"


@pytest.mark.parametrize("stop", range(4))
def test_a_file_verifies_wherever_its_writer_is_stopped(stop: int) -> None:
    state = {"file": b"older", "listed": f"{checksum.digest(io.BytesIO(b'older'), 'sha256')}  f\n"}
    steps = iter(range(10))

    def step(name: str, value: Any) -> None:
        if next(steps) == stop:
            raise InterruptedError
        state[name] = value

    new = checksum.digest(io.BytesIO(b"new"), "sha256")
    listed = str(state["listed"])
    try:
        checksum.replace(
            lambda: step("file", b"new"), "f", new, listed, lambda text: step("listed", text)
        )
    except InterruptedError:
        assert stop < 3
    digest = checksum.digest(io.BytesIO(state["file"]), "sha256")  # type: ignore[arg-type]
    checksum.verify("f", digest, state["listed"], "sha256")  # type: ignore[arg-type]
    assert state["file"] == (b"older" if stop < 2 else b"new")


@pytest.mark.parametrize(
    ("before", "after", "content"),
    [([], [b"new"], b"older"), ([b"new"], [], b"new"), ([b"new"], [b"newer"], b"newer")],
)
@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_what_is_replaced_while_it_is_opened_verifies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    before: list[bytes],
    after: list[bytes],
    content: bytes,
) -> None:
    """Other writers commit before and after the file is opened; the reader gets verified bytes."""
    path = f"{scheme}{tmp_path}/file"
    _write(path, b"older", checksum="sha256")
    filesystem_class = type(filesystem_of(path))
    original = filesystem_class.open_to_read

    def open_to_read(self: Any, name: str) -> Any:
        if name != path:
            return original(self, name)
        while before:
            _write(path, before.pop(), checksum="sha256")
        file = original(self, name)
        while after:
            _write(path, after.pop(), checksum="sha256")
        return file

    # Copy the lists, because all parametrized cases share them.
    before, after = [*before], [*after]
    monkeypatch.setattr(filesystem_class, "open_to_read", open_to_read)
    with gfile.Open(path, "rb", checksum="sha256") as file:
        assert file.read() == content


def test_a_checksum_that_is_wrong_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading fails if no version of the checksum file lists the file's checksum."""
    lists = iter(["a  file\n", "b  file\n", "b  file\n", "c  file\n"])
    (tmp_path / "file").write_bytes(b"damaged")
    monkeypatch.setattr(LocalFilesystem, "read_text", lambda *_: next(lists))
    with pytest.raises(gfile.ChecksumError, match="and b or c is listed"):
        gfile.Open(tmp_path / "file", checksum="sha256")
