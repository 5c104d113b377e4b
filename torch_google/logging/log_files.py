# SPDX-License-Identifier: Apache-2.0
"""The stream in files: one for each process, named as Abseil names its own, in any directory of gfile.

A local file has each record in it before the call that logged it returns. Other stores cannot append
cheaply, so there a record waits for company: a part of the log is written when it is large or old
enough, at a record of severity ERROR or above, and at exit.

A store's client logs too, in the thread that uploads and in threads of its own, while the upload waits for
them. So nothing is uploaded under a lock that is needed to log, and no thread that logs waits for an upload
without a limit: whichever thread it is, what it logs is queued, and it goes on.
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
from collections.abc import Callable, Iterator
from multiprocessing import util as multiprocessing_util
from typing import Protocol

from torch_google import gfile
from torch_google.logging.own_file import open_own

# A part of a log in a remote store: bytes, and seconds since its first record.
PART_BYTES = 1 << 20
PART_SECONDS = 10.0
# How long a record of severity ERROR waits to be in the store, and how soon the next part follows when
# such a record came during an upload.
URGENT_SECONDS = 5.0
AGAIN_SECONDS = 0.2
# Below are the descriptors of standard input, output and error.
_FIRST_OWN = 3


class _PathHandler(logging.Handler):
    """Writes to a file of this process; a forked process begins one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._pid = 0
        self._file: _File | None = None
        self._failing = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record, and wait until an urgent one is where it will survive this process."""
        handled = super().handle(record)
        file = self._own()
        if handled and file is not None and _is_urgent(record):
            file.settle()
        return handled

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. A failure is reported on standard error, as Python's handlers do.

        One of the disk or the store takes a line there, and not for each record that it concerns.
        """
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            with self._held():
                self._current().write(line, _is_urgent(record))
        except OSError as error:
            self._report(error)
        except Exception:  # noqa: BLE001 - of whatever kind
            self.handleError(record)

    def flush(self) -> None:
        """Have everything written."""
        file = self._own()
        if file is not None:
            file.flush()

    def close(self) -> None:
        """Write what is left; the handler is of no use afterwards."""
        with self._held():
            file, self._file = self._own(), None
        super().close()
        if file is not None:
            file.close()

    def acquire(self) -> None:
        """Do nothing: `logging.shutdown` would hold the lock while it has everything written."""

    def release(self) -> None:
        """Do nothing, as `acquire`."""

    def _path(self) -> str:
        """Return where a process that has no file yet begins one."""
        raise NotImplementedError(f"{type(self).__name__} has no path")

    def _own(self) -> _File | None:
        """Return the file, unless it is of the process that this one was forked from."""
        return self._file if self._pid == os.getpid() else None

    def _current(self) -> _File:
        if self._own() is None:
            self._open(self._path())
        assert self._file is not None
        return self._file

    def _open(self, path: str) -> None:
        kind = _RemoteFile if gfile.is_remote(path) else _LocalFile
        self._file = kind(path, self._report)
        self._pid = os.getpid()

    def _report(self, error: Exception | None) -> None:
        """Say that the log is not in its file, or that it is again, where that is news."""
        if error is not None and not self._failing:
            said = error if isinstance(error, OSError) else repr(error)
            _say(f"the log is not in its file from here on: {said}")
        if error is None and self._failing:
            _say("the log is in its file again")
        self._failing = error is not None

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the lock, which a forked process finds free: never for longer than writing here takes."""
        assert self.lock is not None
        with self.lock:
            yield


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
    def settle(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _LocalFile:
    """One write to the kernel per record: whole lines, though many processes append and any may die."""

    def __init__(self, path: str, report: Callable[[Exception | None], None]) -> None:
        self._report = report
        self.path, opened = open_own(path)
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
        self._report(None)

    def settle(self) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._descriptor)


class _RemoteFile:
    """Parts `PATH.0000`, `PATH.0001`, ...: each is written once, whole, and never again.

    It goes on after the parts that it finds: a log that is opened again keeps its beginning.
    """

    def __init__(self, path: str, report: Callable[[Exception | None], None]) -> None:
        self.path = path
        self._report = report
        self._parts = 0
        self._begun = False
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._due = False
        self._due_again = False
        # How many records were queued, and are in the store.
        self._queued = 0
        self._stored = 0
        self._prompt = True
        self._closed = False
        # For the queue alone, so it is soon free. Reentrant: a finalizer or a handler of signals may log
        # between any two lines here.
        self._lock = threading.RLock()
        self._some = threading.Condition(self._lock)
        # Held during an upload. Who waits for it wants to upload; nobody does who only logs.
        self._upload_lock = threading.Lock()
        threading.Thread(target=self._write_parts, name="log parts", daemon=True).start()
        # A process of multiprocessing ends without atexit.
        multiprocessing_util.Finalize(None, self.flush, exitpriority=0)

    def write(self, line: bytes, urgent: bool) -> None:
        with self._lock:
            self._waiting.append(line)
            self._bytes += len(line)
            self._queued += 1
            # What an upload says of itself waits for company: there would be no end of parts.
            if (urgent or self._bytes >= PART_BYTES) and not _here.uploading:
                self._due = True
            self._some.notify_all()

    def settle(self) -> None:
        """Wait until what was written so far is in the store, if it can be there soon.

        The upload may need the very thread that waits here, if it is one of the store's client. So there
        is a limit, and none waits again before the store has answered.
        """
        with self._lock:
            if self._closed or not self._prompt or _here.uploading:
                return
            wanted = self._queued
            self._some.wait_for(
                lambda: self._stored >= wanted or not self._prompt or self._closed, URGENT_SECONDS
            )
            self._prompt = self._stored >= wanted

    def flush(self) -> None:
        if _here.uploading:  # a handler of signals, in an upload that it has interrupted
            return
        with self._upload_lock:
            _here.uploading = True
            try:
                self._write_part()
            finally:
                _here.uploading = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._some.notify_all()
        self.flush()

    def _write_part(self) -> None:
        """Write what waits; it still waits if that fails."""
        with self._lock:
            part, self._waiting = self._waiting, []
            self._bytes = 0
            self._due = False
        if not part:
            return
        done = False
        try:
            while not done:
                done = self._store(b"".join(part))
                self._parts += 1
                self._begun = False
        finally:
            with self._lock:
                self._due_again = self._due
                if done:
                    self._stored += len(part)
                else:
                    self._waiting[:0] = part
                    self._bytes += sum(map(len, part))
                    self._due = True
                self._prompt = done
                self._some.notify_all()

    def _store(self, data: bytes) -> bool:
        """Write the next part; return False if another log of this path has one of that number."""
        # A part whose upload failed may be there all the same. It is this log's, and is written again.
        mode = "wb" if self._begun else "xb"
        try:
            with gfile.Open(f"{self.path}.{self._parts:04}", mode) as file:
                self._begun = True
                file.write(data)
        except FileExistsError:
            if mode == "wb":
                raise
            return False
        return True

    def _write_parts(self) -> None:
        while True:
            with self._lock:
                self._some.wait_for(lambda: self._waiting or self._closed)
                self._some.wait_for(lambda: self._due or self._closed, PART_SECONDS)
            if self._closed:
                return
            try:
                self.flush()
            except Exception as error:  # noqa: BLE001 - a client's own, too: the next try may succeed
                self._report(error)
                pause = PART_SECONDS
            else:
                self._report(None)
                # A client that logs an error at each upload should not keep this busy.
                pause = AGAIN_SECONDS if self._due_again else 0.0
            with self._lock:
                self._some.wait_for(lambda: self._closed, pause)


class _Here(threading.local):
    """Whether this thread is uploading a part, of whichever log."""

    uploading = False


def _say(text: str) -> None:
    """Tell whoever sees standard error; the log itself is what cannot be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"torch_google.logging: {text}\n")


def _is_urgent(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _host() -> str:
    return socket.gethostname().split(".", 1)[0] or "host"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for the number
        return str(os.getuid())


_here = _Here()
_remote_lock = threading.Lock()
_remote_logs: dict[tuple[str, int], RemoteLog] = {}
