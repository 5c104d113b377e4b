# SPDX-License-Identifier: Apache-2.0
"""Log files: one per process, named like Abseil's, in any gfile directory.

A record is in a local file before the logging call returns. Remote stores cannot append cheaply, so
there records are batched into parts. A part is written when it is large or old enough, on a record
with severity ERROR or above, and at exit.

A store's client also logs, from the uploading thread and from threads that the upload waits for.
So an upload never holds a lock that logging needs, and no logging thread waits for an upload
without a time limit: every record is queued, and its thread continues.
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

# Limits for a part of a log in a remote store: bytes, and seconds since its first record.
PART_BYTES = 1 << 20
PART_SECONDS = 10.0
# How long the logging call waits until a record with severity ERROR is stored, and the pause before
# the next part if one came during an upload.
URGENT_SECONDS = 5.0
AGAIN_SECONDS = 0.2
# Lower descriptors are standard input, output and error.
_FIRST_OWN = 3


class _PathHandler(logging.Handler):
    """A handler that writes to one file per process; a forked process starts its own."""

    def __init__(self) -> None:
        super().__init__()
        self._pid = 0
        self._file: _File | None = None
        self._failing = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record; if it is urgent, wait until it is stored, so that it survives a crash."""
        handled = super().handle(record)
        file = self._own()
        if handled and file is not None and _is_urgent(record):
            file.settle()
        return handled

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. Report failures on standard error, as Python's handlers do.

        A failing disk or store is reported in one line, not once per record.
        """
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            with self._held():
                self._current().write(line, _is_urgent(record))
        except OSError as error:
            self._report(error)
        except Exception:  # noqa: BLE001 - formatting and clients can raise anything
            self.handleError(record)

    def flush(self) -> None:
        """Write all queued records."""
        file = self._own()
        if file is not None:
            file.flush()

    def close(self) -> None:
        """Flush and close the file. The handler cannot be used afterwards."""
        with self._held():
            file, self._file = self._own(), None
        super().close()
        if file is not None:
            file.close()

    def acquire(self) -> None:
        """Do nothing: `logging.shutdown` would hold the lock during the final flush."""

    def release(self) -> None:
        """Do nothing, like `acquire`."""

    def _path(self) -> str:
        """Return the path for a process that does not have a file yet."""
        raise NotImplementedError(f"{type(self).__name__} has no path")

    def _own(self) -> _File | None:
        """Return this process's file; None if the file belongs to the parent of a fork."""
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
        """Report when writing the log starts to fail, and when it works again."""
        if error is not None and not self._failing:
            text = error if isinstance(error, OSError) else repr(error)
            _say(f"the log is not written to its file from now on: {text}")
        if error is None and self._failing:
            _say("the log is written to its file again")
        self._failing = error is not None

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the handler's lock, for one write only. A forked process finds it free."""
        assert self.lock is not None
        with self.lock:
            yield


class LogFile(_PathHandler):
    """A handler that writes to a file in `directory`, or to parts, named by program and process."""

    def __init__(self, directory: str, program: str) -> None:
        """Create the directory. Raises OSError that names it if that fails."""
        gfile.MakeDirs(directory)
        super().__init__()
        self._directory = directory
        self._program = program

    def follow(self) -> None:
        """After a fork, continue the parent's file; in a remote store, a new one next to it."""
        with self._held():
            path = self._file.path if self._file else self._path()
            self._open(f"{path}.native" if gfile.is_remote(path) else path)

    def _path(self) -> str:
        return os.path.join(self._directory, file_name(self._program))


class RemoteLog(_PathHandler):
    """A handler that writes parts of one remote path; `remote_log` returns the path's handler."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._named = path
        self._maker = os.getpid()

    def _path(self) -> str:
        # Two processes that write parts with the same name would overwrite each other's.
        return self._named if os.getpid() == self._maker else f"{self._named}.{os.getpid()}"


def remote_log(path: str) -> RemoteLog:
    """Return this process's handler for a path. Each torch logger asks for one."""
    with _remote_lock:
        key = (path, os.getpid())
        if key not in _remote_logs:
            _remote_logs[key] = RemoteLog(path)
        return _remote_logs[key]


def file_name(program: str) -> str:
    """Return `PROGRAM.HOST.USER.log.INFO.YYYYMMDD-HHMMSS.PID` for this process and time."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"{program.replace(os.sep, '_')}.{_host()}.{_user()}.log.INFO.{stamp}.{os.getpid()}"


class _File(Protocol):
    path: str

    def write(self, line: bytes, urgent: bool) -> None: ...
    def settle(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _LocalFile:
    """A file with one write() per record: lines stay whole when processes share it or one dies."""

    def __init__(self, path: str, report: Callable[[Exception | None], None]) -> None:
        self._report = report
        self.path, opened = open_own(path)
        # If descriptor 2 was closed, the file would get that number, and C++ text would go into it.
        self._descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
        os.close(opened)
        self._cut = False

    def write(self, line: bytes, urgent: bool) -> None:
        del urgent
        if self._cut:  # a full disk cut the last line short
            line = b"\n" + line
        begin = line
        try:
            while line:  # a signal or a full pipe may cut a write short
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
    """Parts `PATH.0000`, `PATH.0001`, ...: each is written once, in full.

    Numbering continues after existing parts, so a reopened log keeps its earlier parts.
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
        # Record counts: queued so far, and stored so far.
        self._queued = 0
        self._stored = 0
        self._prompt = True
        self._closed = False
        # Guards only the queue, so it is held briefly. Reentrant, because a finalizer or a signal
        # handler may log between any two lines here.
        self._lock = threading.RLock()
        self._some = threading.Condition(self._lock)
        # Held during an upload. Only uploading threads wait for it, never threads that only log.
        self._upload_lock = threading.Lock()
        threading.Thread(target=self._write_parts, name="log parts", daemon=True).start()
        # Child processes of multiprocessing exit without running atexit.
        multiprocessing_util.Finalize(None, self.flush, exitpriority=0)

    def write(self, line: bytes, urgent: bool) -> None:
        with self._lock:
            self._waiting.append(line)
            self._bytes += len(line)
            self._queued += 1
            # Records that an upload logs are batched; otherwise each part would cause another.
            if (urgent or self._bytes >= PART_BYTES) and not _here.uploading:
                self._due = True
            self._some.notify_all()

    def settle(self) -> None:
        """Wait, for a limited time, until everything written so far is stored.

        The waiting thread may be one of the client's own threads that the upload needs, hence the
        limit. After a timeout, no thread waits again until an upload has succeeded.
        """
        with self._lock:
            if self._closed or not self._prompt or _here.uploading:
                return
            queued = self._queued
            self._some.wait_for(
                lambda: self._stored >= queued or not self._prompt or self._closed, URGENT_SECONDS
            )
            self._prompt = self._stored >= queued

    def flush(self) -> None:
        if _here.uploading:  # a signal handler interrupted this thread's own upload
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
        """Upload the queued records; requeue them if that fails."""
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
        """Write the next part; return False if another log already has a part with that number."""
        # A part may exist although its upload failed. It belongs to this log, so overwrite it.
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
            except Exception as error:  # noqa: BLE001 - clients raise any type; retry later
                self._report(error)
                pause = PART_SECONDS
            else:
                self._report(None)
                # Without the pause, a client that logs an error at each upload would cause a busy
                # loop.
                pause = AGAIN_SECONDS if self._due_again else 0.0
            with self._lock:
                self._some.wait_for(lambda: self._closed, pause)


class _Here(threading.local):
    """Per-thread state: whether this thread is uploading a part of any log."""

    uploading = False


def _say(text: str) -> None:
    """Report on standard error, because the log itself cannot be written."""
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
    except (KeyError, OSError):  # the user id has no user name
        return str(os.getuid())


_here = _Here()
_remote_lock = threading.Lock()
_remote_logs: dict[tuple[str, int], RemoteLog] = {}
