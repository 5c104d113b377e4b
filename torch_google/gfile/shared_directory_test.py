# SPDX-License-Identifier: Apache-2.0
"""Test writing and `gfile.Sweep` in a directory that other users can write to."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from torch_google import gfile
from torch_google.gfile import answers
from torch_google.gfile.partial import Partial, machine
from torch_google.gfile.private_directory import path_at
from torch_google.gfile.testing.other_user import UID, needs_root, repeated_by_other, run_as_other

_RACE_SECONDS = 1.5


def _aside(number: int = 0, name: str = "file") -> str:
    return f".{name}.partial-{machine()}-{number}"


def _write(path: Path, content: bytes) -> None:
    with gfile.Open(path, "wb") as file:
        file.write(content)


def _write_by_path(path: Path, content: bytes) -> None:
    """Write to a path and follow links, as torch's native code does."""
    with answers.writing_by_name(path) as temporary:
        Path(temporary).write_bytes(content)


def _append(path: Path, content: bytes) -> None:
    with gfile.Open(path, "ab") as file:
        file.write(content)


def _sweep(path: Path, content: bytes) -> None:
    gfile.Sweep(path.parent)
    _write(path, content)


def _remove_directory(path: Path, content: bytes) -> None:
    with contextlib.suppress(OSError):  # the directory may not be empty
        gfile.GPath(path.parent).rmdir()
    _write(path, content)


_ACTIONS = [_write, _write_by_path, _sweep, _remove_directory]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a directory, outside the shared one, whose content must not change."""
    directory = tmp_path / "victim"
    directory.mkdir(mode=0o755)
    (directory / "file").write_bytes(b"precious")
    (directory / "other").write_bytes(b"precious")
    return directory


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a world-writable directory with the sticky bit, like /tmp."""
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def _check(victim: Path) -> None:
    assert {path.name: path.read_bytes() for path in victim.iterdir()} == {
        "file": b"precious",
        "other": b"precious",
    }


@pytest.mark.parametrize("action", _ACTIONS)
def test_a_link_in_the_place_of_a_leftover_is_left_alone(
    shared: Path, victim: Path, action: Callable[[Path, bytes], None]
) -> None:
    (shared / _aside()).symlink_to(victim)
    action(shared / "file", b"content")
    _check(victim)
    assert (shared / "file").read_bytes() == b"content"
    assert sorted(os.listdir(shared)) == [_aside(), "file"]


@pytest.mark.parametrize("action", _ACTIONS)
@pytest.mark.parametrize(
    "kind", ["file", "pipe", "dangling", "writable", "subdirectory", "foreign"]
)
def test_other_things_in_the_place_of_a_leftover_are_left_alone(
    shared: Path, action: Callable[[Path, bytes], None], kind: str
) -> None:
    planted = shared / _aside()
    if kind == "file":
        planted.write_bytes(b"")
    elif kind == "pipe":
        os.mkfifo(planted)
    elif kind == "dangling":
        planted.symlink_to("nowhere")
    else:
        planted.mkdir()
        planted.chmod(0o777 if kind == "writable" else 0o1700)
        if kind == "subdirectory":
            (planted / "file").mkdir()
        else:
            (planted / ("file" if kind == "writable" else "my thesis")).write_bytes(b"precious")
    before = sorted(planted.iterdir()) if planted.is_dir() else []
    action(shared / "file", b"content")
    assert (shared / "file").read_bytes() == b"content"
    assert sorted(os.listdir(shared)) == [_aside(), "file"]
    assert before == (sorted(planted.iterdir()) if planted.is_dir() else [])


@needs_root
@pytest.mark.parametrize("action", _ACTIONS)
def test_another_users_directory_is_not_used(
    shared: Path, victim: Path, action: Callable[[Path, bytes], None]
) -> None:
    def plant() -> None:
        for number in range(3):
            os.mkdir(_aside(number))
            os.symlink(victim / "file", f"{_aside(number)}/file")

    run_as_other(shared, plant)
    action(shared / "file", b"content")
    _check(victim)
    assert (shared / "file").read_bytes() == b"content"
    assert not (shared / "file").is_symlink()
    assert sorted(os.listdir(shared)) == [*(_aside(number) for number in range(3)), "file"]
    assert (shared / _aside() / "file").is_symlink()


@needs_root
@pytest.mark.parametrize("action", _ACTIONS)
def test_another_user_who_plants_links_again_and_again(
    shared: Path, victim: Path, action: Callable[[Path, bytes], None]
) -> None:
    def plant() -> None:
        for number in range(4):
            with contextlib.suppress(OSError):
                os.symlink(victim, _aside(number))
                os.unlink(_aside(number))
            with contextlib.suppress(OSError):
                os.mkdir(_aside(number))
                os.symlink(victim / "file", f"{_aside(number)}/file")
                os.unlink(f"{_aside(number)}/file")
                os.rmdir(_aside(number))

    (shared / "present").touch()  # with this file, rmdir must fail
    end = time.monotonic() + _RACE_SECONDS
    turns = 0
    with repeated_by_other(shared, plant), gfile.configured(sync=False):
        while turns < 10 or time.monotonic() < end:
            content = b"%d" % turns
            action(shared / "file", content)
            target = os.lstat(shared / "file")
            assert (target.st_uid, stat.S_ISREG(target.st_mode)) == (os.geteuid(), True)
            assert (shared / "file").read_bytes() == content
            turns += 1
    _check(victim)


@needs_root
@pytest.mark.parametrize("by_path", [False, True])
def test_a_directory_that_another_user_moves_away(
    shared: Path, victim: Path, by_path: bool
) -> None:
    """Without the sticky bit, other users can rename a directory that is being written to."""
    shared.chmod(0o777)

    def swap() -> None:
        os.rename(_aside(), "moved")
        os.mkdir(_aside())
        os.symlink(victim / "file", f"{_aside()}/file")

    if by_path:
        with answers.writing_by_name(shared / "file") as temporary:
            run_as_other(shared, swap)
            Path(temporary).write_bytes(b"content")
    else:
        with gfile.Open(shared / "file", "wb") as file:
            run_as_other(shared, swap)
            file.write(b"content")
    _check(victim)
    assert (shared / "file").read_bytes() == b"content"
    assert (shared / "file").stat().st_uid == os.geteuid()
    assert (shared / _aside() / "file").is_symlink()


@pytest.mark.parametrize("by_path", [False, True])
def test_a_parent_that_is_replaced_while_a_file_is_written(
    tmp_path: Path, victim: Path, by_path: bool
) -> None:
    parent, moved = tmp_path / "parent", tmp_path / "moved"
    parent.mkdir()

    def swap() -> None:
        parent.rename(moved)
        parent.symlink_to(victim)

    if by_path:
        with answers.writing_by_name(parent / "file") as temporary:
            swap()
            Path(temporary).write_bytes(b"content")
    else:
        with gfile.Open(parent / "file", "wb") as file:
            swap()
            file.write(b"content")
    _check(victim)
    assert (moved / "file").read_bytes() == b"content"
    assert os.listdir(moved) == ["file"]


@needs_root
@pytest.mark.parametrize("action", [_write, _write_by_path, _append])
def test_a_link_of_another_user_is_not_written_through(
    shared: Path, victim: Path, action: Callable[[Path, bytes], None]
) -> None:
    """The write fails, whatever the link points to, even if fs.protected_symlinks is off."""
    os.mkfifo(victim.parent / "pipe")
    reader = os.open(victim.parent / "pipe", os.O_RDWR | os.O_NONBLOCK)
    targets = (victim / "file", victim.parent / "new", victim.parent / "pipe", "/dev/null")
    for number, target in enumerate(targets):
        path = shared / f"link{number}"
        run_as_other(shared, lambda name=path.name, target=target: os.symlink(target, name))  # type: ignore[misc]
        with pytest.raises(PermissionError, match="another user's link in a sticky directory"):
            action(path, b"content")
    _check(victim)
    assert not (victim.parent / "new").exists()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    (shared / "own").symlink_to(victim / "file")
    action(shared / "own", b"content")
    assert (victim / "file").read_bytes().endswith(b"content")


@needs_root
def test_a_file_of_another_user_is_not_written_in_place(shared: Path) -> None:
    """The write fails, even if fs.protected_fifos and fs.protected_regular are off."""

    def plant() -> None:
        os.mkfifo("pipe")
        Path("log").touch()

    run_as_other(shared, plant)
    reader = os.open(shared / "pipe", os.O_RDWR | os.O_NONBLOCK)
    for action, name in ((_write, "pipe"), (_write_by_path, "pipe"), (_append, "log")):
        with pytest.raises(PermissionError, match="another user's file in a sticky directory"):
            action(shared / name, b"content")
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    shared.chmod(0o1755)
    _append(shared / "log", b"content")
    assert (shared / "log").read_bytes() == b"content"


@needs_root
def test_a_link_that_is_planted_while_a_file_is_appended_to(shared: Path, victim: Path) -> None:
    def plant() -> None:
        os.symlink(victim / "file", "log")
        os.unlink("log")

    end = time.monotonic() + _RACE_SECONDS
    with repeated_by_other(shared, plant):
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                _append(shared / "log", b"content")
                (shared / "log").unlink()
    _check(victim)


def test_a_descriptor_behind_a_link_is_written_to(tmp_path: Path) -> None:
    """A container's log, for example, may be a link to /dev/stdout."""
    reader, writer = os.pipe()
    (tmp_path / "log").symlink_to(f"/proc/self/fd/{writer}")
    for action in (_write, _append):
        action(tmp_path / "log", b"content")
        assert os.read(reader, 100) == b"content"
    os.close(reader)
    os.close(writer)


@needs_root
@pytest.mark.parametrize("action", _ACTIONS)
@pytest.mark.parametrize("name", ["file", ""])
def test_a_directory_that_another_user_renames_keeps_its_files(
    shared: Path, action: Callable[[Path, bytes], None], name: str
) -> None:
    """Without the sticky bit, other users can give any directory the name of a temporary one."""
    shared.chmod(0o777)
    (shared / "checkpoint").mkdir(mode=0o700)
    (shared / "checkpoint" / "file").write_bytes(b"precious")
    run_as_other(shared, lambda: os.rename("checkpoint", _aside(name=name)))
    action(shared / "file", b"content")
    assert (shared / _aside(name=name) / "file").read_bytes() == b"precious"
    assert (shared / "file").read_bytes() == b"content"


@needs_root
def test_names_that_are_all_taken(shared: Path) -> None:
    def plant() -> None:
        for number in range(200):
            os.mkdir(_aside(number))

    run_as_other(shared, plant)
    _write(shared / "file", b"content")
    assert (shared / "file").read_bytes() == b"content"
    assert len(os.listdir(shared)) == 201


def test_a_filesystem_that_shows_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS shows root's files as another user's, and FAT shows one owner for all files."""
    monkeypatch.setattr(os, "geteuid", lambda: UID)
    for content in (b"content", b"more"):
        _write(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
        assert os.listdir(tmp_path) == ["file"]


def test_a_machine_without_proc(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert path_at(-1, "file", path) == path


def test_every_descriptor_is_closed(tmp_path: Path) -> None:
    (tmp_path / _aside()).symlink_to(tmp_path)
    (tmp_path / _aside(1)).mkdir()
    (tmp_path / _aside(1)).chmod(0o1700)
    (tmp_path / _aside(1) / "strange").mkdir()
    before = os.listdir("/proc/self/fd")
    _write(tmp_path / "file", b"content")
    _write_by_path(tmp_path / "file", b"content")
    gfile.Sweep(tmp_path)
    file = gfile.Open(tmp_path / "new", "xb")
    (tmp_path / "new").touch()
    with pytest.raises(FileExistsError):
        file.close()
    with pytest.raises(FileNotFoundError):
        Partial("")
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_tree_behind_a_link_stays(tmp_path: Path, victim: Path, slash: str) -> None:
    (victim / _aside()).mkdir()
    (victim / _aside() / "file").write_bytes(b"precious")
    for remove in (gfile.DeleteRecursively, lambda path: gfile.GPath(path).rmdir()):
        with contextlib.suppress(FileExistsError):
            (tmp_path / "link").symlink_to(victim)
        with contextlib.suppress(NotADirectoryError):
            remove(f"{tmp_path}/link{slash}")
        assert (victim / _aside() / "file").exists()
    shutil.rmtree(victim / _aside())
    _check(victim)


@needs_root
def test_a_tree_is_removed_while_another_user_plants_links(shared: Path, victim: Path) -> None:
    """The other user may replace any directory in the tree with a link at any moment."""

    def plant() -> None:
        for number in range(8):
            with contextlib.suppress(OSError):
                os.mkdir(f"tree/{number}")
                os.rename(f"tree/{number}", f"tree/{number}.moved")
                os.symlink(victim, f"tree/{number}")
                os.unlink(f"tree/{number}")
                os.rename(f"tree/{number}.moved", f"tree/{number}")

    end = time.monotonic() + _RACE_SECONDS
    with repeated_by_other(shared, plant):
        while time.monotonic() < end:
            (shared / "tree").mkdir(exist_ok=True)
            (shared / "tree").chmod(0o777)
            # Removal may fail: the other user keeps adding entries.
            with contextlib.suppress(OSError):
                gfile.DeleteRecursively(shared / "tree")
            with contextlib.suppress(OSError):
                gfile.Sweep(shared)
    _check(victim)
