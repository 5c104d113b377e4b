# SPDX-License-Identifier: Apache-2.0
"""The files that torch means by the paths it is given: every scheme's, and written whole.

On this machine torch reads what it always read; what it writes goes to a file beside the target, which
takes its name at the end. So torch's native writers do the work, and the bytes are the same.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from typing import Any

from torch_google.gfile.failures import explained, failure
from torch_google.gfile.local import is_replaceable
from torch_google.gfile.location import is_remote, locate
from torch_google.gfile.operations import MakeDirs, Open
from torch_google.gfile.partial import Partial, is_partial, refuse_planted
from torch_google.gfile.settings import settings


def reading(file: Any, mmap: bool) -> AbstractContextManager[Any]:
    """A store's file as a stream; mapped, as a copy here if that is allowed."""
    if not is_remote(file):
        return nullcontext(_plain(file))
    if not mmap:
        return Open(file, "rb")
    if settings().stage_mapped:
        return reading_by_name(file)
    path = os.fspath(file)
    raise ValueError(
        f"torch.load: {path}: {locate(path).scheme}:// cannot be mapped (mmap=True), only a file of "
        "this machine can. Load it without mmap, or gfile.Copy it to a directory first, or let that be "
        "done by gfile.configure(stage_mapped=True)"
    )


def writing(file: Any) -> AbstractContextManager[Any]:
    """A store's file as a stream, this machine's as a path beside it."""
    return Open(file, "wb") if is_remote(file) else _beside(file)


@contextmanager
def reading_by_name(path: Any) -> Iterator[Any]:
    """A copy on this machine, of a store's file, for as long as the context lasts.

    What is mapped from it stays: the pages outlive the name.
    """
    if not is_remote(path):
        yield _plain(path)
        return
    with tempfile.TemporaryDirectory(prefix="gfile-") as directory:
        copy = os.path.join(directory, locate(path).name or "file")
        with Open(path, "rb") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target, 8 << 20)
        yield copy


def writing_by_name(path: Any) -> AbstractContextManager[Any]:
    """A path on this machine whose file is sent to the store afterwards, or renamed."""
    return _sent(path) if is_remote(path) else _beside(path)


def contents(file: Any) -> Any:
    """All of a store's file."""
    if not is_remote(file):
        return _plain(file)
    with Open(file, "rb") as source:
        return BytesIO(source.read())


def make_directory(path: str) -> None:
    """Of any scheme."""
    MakeDirs(path)


def directory_here(path: str) -> str:
    """Refuse what is not of this machine."""
    if is_remote(path):
        raise failure(
            errno.EINVAL,
            "torch.hub keeps what it downloads, and imports it, in a directory of this machine; name "
            "one (the URL itself may have any scheme)",
            path,
        )
    return locate(path).inner


@contextmanager
def _sent(path: Any) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gfile-") as directory:
        local = os.path.join(directory, locate(path).name or "file")
        yield local
        with open(local, "rb") as source, Open(path, "wb") as target:
            shutil.copyfileobj(source, target, 8 << 20)


@contextmanager
def _beside(path: Any) -> Iterator[Any]:
    # An open file is its owner's business. So is what upstream refuses, in its own words.
    target = _plain(path)
    if not isinstance(path, (str, os.PathLike)) or not _can_be_beside(target):
        if isinstance(path, (str, os.PathLike)):
            with explained("cannot write", target):
                refuse_planted(os.fsdecode(target))
        yield target
        return
    with explained("cannot write", target):
        partial = Partial(target)
    try:
        yield partial.path
        with explained("cannot write", target):
            partial.commit(sync=settings().sync)
    finally:
        partial.discard()


def _can_be_beside(target: str) -> bool:
    parent = os.path.dirname(os.path.realpath(target))
    # The parent is a partial one when a function that was asked calls another that asks again.
    return (
        os.path.isdir(parent)
        and not os.path.isdir(target)
        and not is_partial(os.path.basename(parent))
        and is_replaceable(target)
    )


def _plain(file: Any) -> Any:
    """`file:///a/b` is `/a/b` to what knows no schemes; everything else is itself."""
    if isinstance(file, (str, os.PathLike)):
        text: object = os.fspath(file)
        if isinstance(text, str) and text.startswith(("file://", "local://")):
            return locate(text).inner
    return file
