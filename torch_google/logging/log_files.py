# SPDX-License-Identifier: Apache-2.0
"""The stream in files: one for each process, named as Abseil names its own, in any directory of gfile.

A local file has each record in it before the call that logged it returns. Other stores cannot append
cheaply, so there a record waits for company: a part of the log is written when it is large or old
enough, at a record of severity ERROR or above, and at exit.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import getpass
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import util as multiprocessing_util
from typing import Protocol

from torch_google import gfile

# A part of a log in a remote store: bytes, and seconds since its first record.
PART_BYTES = 1 << 20
PART_SECONDS = 10.0
# Below are the descriptors of standard input, output and error.
_FIRST_OWN = 3


class _PathHandler(logging.Handler):
    """Writes to a file of this process; a forked process begins one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._pid = 0
        self._file: _File | None = None
        self._failing = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. A failure is reported on standard error, as Python's handlers do.

        One of the disk or the store takes a line there, and not for each record that it concerns.
        """
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            self._current().write(line, record.levelno >= logging.ERROR)
        except OSError as error:
            if not self._failing:
                _say(f"the log is not in its file from here on: {error}")
            self._failing = True
        except Exception:  # noqa: BLE001 - of whatever kind
            self.handleError(record)
        else:
            if self._failing:
                _say("the log is in its file again")
            self._failing = False

    def flush(self) -> None:
        """Have everything written."""
        with self._held():
            if self._file is not None and self._pid == os.getpid():
                self._file.flush()

    def close(self) -> None:
        """Write what is left; the handler is of no use afterwards."""
        with self._held():
            if self._file is not None and self._pid == os.getpid():
                self._file.close()
            self._file = None
        super().close()

    def _path(self) -> str:
        """Return where a process that has no file yet begins one."""
        raise NotImplementedError(f"{type(self).__name__} has no path")

    def _current(self) -> _File:
        if self._file is None or self._pid != os.getpid():
            self._open(self._path())
        assert self._file is not None
        return self._file

    def _open(self, path: str) -> None:
        self._file = _RemoteFile(path) if gfile.is_remote(path) else _LocalFile(path)
        self._pid = os.getpid()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


class LogFile(_PathHandler):
    """Writes to a file below `directory`, or to parts of one, named by program and process."""

    def __init__(self, directory: str, program: str) -> None:
        """Make the directory. Raises OSError that names it when it cannot be made."""
        gfile.MakeDirs(directory)
        super().__init__()
        self._directory = directory
        self._program = program

    def follow(self) -> None:
        """Go on, in a forked process, with the file of its parent: in a remote store, beside it."""
        with self._held():
            path = self._file.path if self._file else self._path()
            self._open(f"{path}.native" if gfile.is_remote(path) else path)

    def _path(self) -> str:
        return os.path.join(self._directory, file_name(self._program))


class RemoteLog(_PathHandler):
    """Writes to parts of one path of a remote store; `remote_log` gives the one for a path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._named = path
        self._maker = os.getpid()

    def _path(self) -> str:
        # Two processes that write parts of one name would overwrite each other's.
        return self._named if os.getpid() == self._maker else f"{self._named}.{os.getpid()}"


def remote_log(path: str) -> RemoteLog:
    """Return the handler of this process for a path: torch asks for one for each of its loggers."""
    with _remote_lock:
        key = (path, os.getpid())
        if key not in _remote_logs:
            _remote_logs[key] = RemoteLog(path)
        return _remote_logs[key]


def file_name(program: str) -> str:
    """Return `PROGRAM.HOST.USER.log.INFO.YYYYMMDD-HHMMSS.PID`, for this process and now."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"{program.replace(os.sep, '_')}.{_host()}.{_user()}.log.INFO.{stamp}.{os.getpid()}"


class _File(Protocol):
    path: str

    def write(self, line: bytes, urgent: bool) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _LocalFile:
    """One write to the kernel per record: whole lines, though many processes append and any may die."""

    def __init__(self, path: str) -> None:
        self.path = path
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        # Without a standard error the file would become it: what C++ code writes there is no record.
        self._descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
        os.close(opened)
        self._cut = False

    def write(self, line: bytes, urgent: bool) -> None:
        del urgent
        if self._cut:  # by a full disk: the rest of a line never came
            line = b"\n" + line
        begin = line
        try:
            while line:  # A signal or a full pipe may cut a write short.
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self._cut = self._cut or line is not begin
            raise OSError(error.errno, error.strerror, self.path) from error
        self._cut = False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._descriptor)


class _RemoteFile:
    """Parts `PATH.0000`, `PATH.0001`, ...: each is written once, whole, and never again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._parts = 0
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._lock = threading.Lock()
        self._some = threading.Condition(self._lock)
        self._closed = False
        self._thread = threading.Thread(target=self._write_old, name="log parts", daemon=True)
        self._thread.start()
        # A process of multiprocessing ends without atexit.
        multiprocessing_util.Finalize(None, self.close, exitpriority=0)

    def write(self, line: bytes, urgent: bool) -> None:
        with self._lock:
            self._waiting.append(line)
            self._bytes += len(line)
            if urgent or self._bytes >= PART_BYTES:
                self._write_part()
            else:
                self._some.notify()

    def flush(self) -> None:
        with self._lock:
            self._write_part()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._write_part()
            self._some.notify()

    def _write_part(self) -> None:
        """Write what waits; it still waits if that fails."""
        if not self._waiting:
            return
        with gfile.Open(f"{self.path}.{self._parts:04}", "wb") as file:
            file.write(b"".join(self._waiting))
        self._parts += 1
        self._waiting.clear()
        self._bytes = 0

    def _write_old(self) -> None:
        while not self._closed:
            with self._lock:
                self._some.wait_for(lambda: self._waiting or self._closed)
            time.sleep(PART_SECONDS)
            # What cannot be written waits for the next try; close() says so in the end.
            with self._lock, contextlib.suppress(OSError):
                self._write_part()


def _say(text: str) -> None:
    """Tell whoever sees standard error; the log itself is what cannot be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"torch_google.logging: {text}\n")


def _host() -> str:
    return socket.gethostname().split(".", 1)[0] or "host"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for the number
        return str(os.getuid())


_remote_lock = threading.Lock()
_remote_logs: dict[tuple[str, int], RemoteLog] = {}
