# SPDX-License-Identifier: Apache-2.0
"""Before a fast exit, write the buffered data of files that the program has not closed."""

from __future__ import annotations

import _io
import contextlib
import fcntl
import gc
import os
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_FLUSHED = (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom, _io.BufferedRWPair)
# Classes outside the `io` module whose finalizers write or remove files.
_OTHERS = (("zipfile", "ZipFile"), ("tempfile", "_TemporaryFileCloser"))


def writable() -> set[tuple[int, int, int]]:
    """Return (descriptor, device, inode) for each descriptor that may have unwritten data.

    The result excludes the standard streams, which every exit flushes, and unlinked files, which no
    other process can open. In multiprocessing's children, it also excludes pipes and sockets,
    because these processes do not buffer the data that they send to each other.
    """
    process: Any = sys.modules.get("multiprocessing.process")
    child = process is not None and process.parent_process() is not None
    rows = set()
    for descriptor in _descriptors():
        try:
            access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
            status = os.fstat(descriptor)
        except OSError:  # a descriptor that is closed by now, such as os.listdir's own
            continue
        file = stat.S_ISREG(status.st_mode) and status.st_nlink > 0
        stream = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
        if descriptor > 2 and access != os.O_RDONLY and (file or (stream and not child)):
            rows.add((descriptor, status.st_dev, status.st_ino))
    return rows


def _descriptors() -> Iterable[int]:
    """Return all open descriptors, and maybe some closed ones. Without /proc, return 0 to 255."""
    try:
        return map(int, os.listdir("/proc/self/fd"))
    except OSError:
        return range(256)


def finalize() -> None:
    """Flush open files, and run the finalizers of file classes that are implemented in Python.

    A file may have layers in C and in Python, in any order. Therefore, flush both before and after
    running the finalizers.
    """
    gc.unfreeze()  # gc.get_objects omits frozen objects
    objects = gc.get_objects()
    others = tuple(
        getattr(sys.modules[module], name) for module, name in _OTHERS if module in sys.modules
    )
    file_types = {
        kind for kind in set(map(type, objects)) if issubclass(kind, (*others, _io._IOBase))
    }
    files = [value for value in objects if type(value) in file_types]
    standard = {id(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)}
    _flush(files)
    for value in files:
        if type(value).__module__ != "_io" and id(value) not in standard:
            try:
                value.__del__()
            except Exception as error:  # noqa: BLE001  # printed, as for all finalizers
                sys.excepthook(type(error), error, error.__traceback__)
    _flush(files)


def _flush(files: list[Any]) -> None:
    for kind in _FLUSHED:
        for value in files:
            if type(value) is kind:
                # The file may be closed, or it may be a pipe without a reader. The interpreter's
                # own finalization does not report such errors either.
                with contextlib.suppress(OSError, ValueError):
                    value.flush()
