# SPDX-License-Identifier: Apache-2.0
"""Test whether a replaced file keeps its owner, group, permissions, ACL and extended attributes."""

from __future__ import annotations

import errno
import logging
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from torch_google import gfile
from torch_google.gfile import answers, attributes
from torch_google.gfile.testing.other_user import GID, UID, needs_root, run_as_other

_GROUP = 54400
_ACL = "system.posix_acl_access"
_DEFAULT_ACL = "system.posix_acl_default"
_CAPABILITY = "security.capability"


def _acl(mode: int) -> bytes:
    """Return an ACL in the kernel's binary format: `mode`, plus read and write for this user."""
    entries = [(1, mode >> 6 & 7, -1), (2, 6, os.geteuid()), (4, mode >> 3 & 7, -1), (0x10, 6, -1)]
    entries.append((0x20, mode & 7, -1))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)


def _set(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip(f"the filesystem of {path} has no {name}")


def _write(path: Path) -> None:
    with gfile.Open(path, "wb") as file:
        file.write(b"new")


def _write_by_path(path: Path) -> None:
    with answers.writing_by_name(path) as temporary:
        Path(temporary).write_bytes(b"new")


def _append(path: Path) -> None:
    with gfile.Open(path, "ab", checksum="sha256") as file:
        file.write(b"new")


_WRITERS = [_write, _write_by_path, _append]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    return file


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "_warned", set())


@needs_root
@pytest.mark.parametrize("write", _WRITERS)
@pytest.mark.parametrize("mode", [0o640, 0o6755, 0o400])
def test_root_keeps_owner_group_and_permissions(
    path: Path, write: Callable[[Path], None], mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    os.chown(path, UID, GID)
    path.chmod(mode)
    write(path)
    status = path.stat()
    assert path.read_bytes().endswith(b"new")
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, GID, mode)
    assert caplog.records == []


@pytest.mark.parametrize("write", _WRITERS)
def test_extended_attributes_are_kept(path: Path, write: Callable[[Path], None]) -> None:
    _set(path, "user.origin", b"run \0 7")
    _set(path, "user.empty", b"")
    write(path)
    assert os.getxattr(path, "user.origin") == b"run \0 7"
    assert os.getxattr(path, "user.empty") == b""


@pytest.mark.parametrize("write", _WRITERS)
def test_an_acl_is_kept(path: Path, write: Callable[[Path], None]) -> None:
    _set(path, _ACL, _acl(0o640))
    before = (os.getxattr(path, _ACL), path.stat().st_mode)
    write(path)
    assert (os.getxattr(path, _ACL), path.stat().st_mode) == before


def test_no_acl_is_kept_as_well(path: Path) -> None:
    """A new file gets the directory's default ACL; replacing a file without an ACL adds none."""
    path.chmod(0o640)
    _set(path.parent, _DEFAULT_ACL, _acl(0o640))
    _write(path)
    assert _ACL not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    _write(path.parent / "new")
    assert _ACL in os.listxattr(path.parent / "new")


@needs_root
def test_capabilities_are_lost_with_the_content(path: Path) -> None:
    _set(path, _CAPABILITY, struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    _write(path)
    assert _CAPABILITY not in os.listxattr(path)


@needs_root
def test_an_owner_that_cannot_be_kept_is_told_once(path: Path) -> None:
    path.parent.chmod(0o777)
    os.chown(path, 0, _GROUP)
    path.chmod(0o6664)
    messages: list[str] = []

    def replace() -> None:
        handler = logging.Handler()
        handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("torch_google.gfile").addHandler(handler)
        _write(Path("file"))
        assert messages == [
            f"{path}: replaced by user {UID}, who could not keep its group {_GROUP}, owner 0; set "
            "them as root, or write the file in place with open()"
        ]
        os.chmod("file", 0o600)
        _write(Path("file"))
        assert len(messages) == 1

    run_as_other(path.parent, replace)
    status = path.stat()
    assert (status.st_uid, status.st_gid, path.read_bytes()) == (UID, GID, b"new")


@needs_root
def test_permissions_are_not_passed_on_to_another_owner_or_group(path: Path) -> None:
    """A new owner must not get the set-user-ID bit; a new group must not get group permissions."""
    path.parent.chmod(0o777)
    os.chown(path, 0, _GROUP)
    path.chmod(0o6774)
    run_as_other(path.parent, lambda: _write(Path("file")))
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, GID, 0o744)


@needs_root
def test_a_member_of_the_group_keeps_it(path: Path) -> None:
    path.parent.chmod(0o777)
    os.chown(path, 0, _GROUP)
    path.chmod(0o2664)
    run_as_other(path.parent, lambda: _write(Path("file")), groups=[_GROUP])
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (UID, _GROUP, 0o2664)


@needs_root
def test_a_file_planted_in_a_sticky_directory_keeps_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Root replaces another user's file. Keeping the owner would give that user root's data."""
    tmp_path.chmod(0o1777)
    run_as_other(tmp_path, lambda: os.close(os.open("file", os.O_CREAT, 0o666)))
    _write(tmp_path / "file")
    status = (tmp_path / "file").stat()
    assert (status.st_uid, status.st_mode & 0o022) == (0, 0)
    assert f"could not keep its owner {UID}" in caplog.text
