# SPDX-License-Identifier: Apache-2.0
"""gfile's implementations of torch's file hooks, with support for any scheme and atomic writes.

Local reads are unchanged. A local write goes to a temporary file next to the target, which is
renamed at the end. torch's native code still does the writing, so the bytes match upstream's.
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
    """Open a file in a store as a stream or, with `mmap`, as a temporary local copy.

    Raises ValueError if the settings do not allow local copies.
    """
    if not is_remote(file):
        return nullcontext(_plain(file))
    if not mmap:
        return Open(file, "rb")
    if settings().stage_mapped:
        return reading_by_name(file)
    path = os.fspath(file)
    raise ValueError(
        f"torch.load: {path}: {locate(path).scheme}:// cannot be mapped (mmap=True), only a local "
        "file can. Load it without mmap, gfile.Copy it to a local directory first, or allow a "
        "temporary copy with gfile.configure(stage_mapped=True)"
    )


def writing(file: Any) -> AbstractContextManager[Any]:
    """Open a file in a store as a stream. For a local file, yield a temporary path next to it."""
    return Open(file, "wb") if is_remote(file) else _atomic(file)


@contextmanager
def reading_by_name(path: Any) -> Iterator[Any]:
    """Copy a file from a store to this machine, and remove the copy on exit.

    A memory mapping of the copy stays valid after its removal.
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
    """Yield a local path; on exit, upload that file or rename it to the target."""
    return _uploaded(path) if is_remote(path) else _atomic(path)


def contents(file: Any) -> Any:
    """Return the content of a file in a store as an in-memory stream."""
    if not is_remote(file):
        return _plain(file)
    with Open(file, "rb") as source:
        return BytesIO(source.read())


def make_directory(path: str) -> None:
    """Create a directory at a path with any scheme."""
    MakeDirs(path)


def directory_here(path: str) -> str:
    """Return a local path without its scheme, if any. Raises OSError for a path in a store."""
    if is_remote(path):
        raise failure(
            errno.EINVAL,
            "torch.hub stores and imports its downloads in a local directory; name one (the URL "
            "itself may have any scheme)",
            path,
        )
    return locate(path).inner


@contextmanager
def _uploaded(path: Any) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gfile-") as directory:
        local = os.path.join(directory, locate(path).name or "file")
        yield local
        with open(local, "rb") as source, Open(path, "wb") as target:
            shutil.copyfileobj(source, target, 8 << 20)


@contextmanager
def _atomic(path: Any) -> Iterator[Any]:
    # If `path` is an open file, or a path that cannot be replaced atomically, yield it as it is.
    target = _plain(path)
    if not isinstance(path, (str, os.PathLike)) or not _can_be_atomic(target):
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


def _can_be_atomic(target: str) -> bool:
    parent = os.path.dirname(os.path.realpath(target))
    # If the parent is one of gfile's temporary directories, a torch function that uses a gfile hook
    # has called another one. The outer function's hook will rename the file.
    return (
        os.path.isdir(parent)
        and not os.path.isdir(target)
        and not is_partial(os.path.basename(parent))
        and is_replaceable(target)
    )


def _plain(file: Any) -> Any:
    """Return `/a/b` for `file:///a/b`, and everything else unchanged."""
    if isinstance(file, (str, os.PathLike)):
        text: object = os.fspath(file)
        if isinstance(text, str) and text.startswith(("file://", "local://")):
            return locate(text).inner
    return file
