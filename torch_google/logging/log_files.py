# SPDX-License-Identifier: Apache-2.0
"""Log files: one per process, named as Abseil names them, in any gfile directory.

With a local directory, a record is in the file before the logging call returns. Remote stores
cannot append cheaply, so their records are batched into parts. A part is uploaded when it is large
or old enough, after a record with severity ERROR or above, and at exit.

The store's client library also logs, both from the uploading thread and from threads that the
upload waits for. So an upload never holds a lock that logging needs. A logging call only queues its
record. If the record is urgent, the call then waits for the upload, with a timeout.
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

# A part of a log is uploaded to a remote store once it has this size in bytes or age in seconds.
PART_BYTES = 1 << 20
PART_SECONDS = 10.0
# The maximum number of seconds that a logging call waits for its urgent record to be stored.
URGENT_SECONDS = 5.0
# The number of seconds between two uploads if the second became due during the first.
AGAIN_SECONDS = 0.2
# The lowest descriptor for a log file. Lower ones are standard input, output and error.
_FIRST_OWN = 3


class _PathHandler(logging.Handler):
    """A handler that writes to one file per process. A forked process opens its own file."""

    def __init__(self) -> None:
        super().__init__()
        self._pid = 0
        self._file: _File | None = None
        self._failing = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record. If it is urgent, wait until it is stored, so that it survives a crash."""
        handled = super().handle(record)
        file = self._own()
        if handled and file is not None and _is_urgent(record):
            file.settle()
        return handled

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. Report failures on standard error, as Python's handlers do.

        If a disk or a store keeps failing, report that once, not for every record.
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
        """Write out all queued records."""
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
        """Do nothing, so that `logging.shutdown` does not hold the lock during the final flush."""

    def release(self) -> None:
        """Do nothing, like `acquire`."""

    def _path(self) -> str:
        """Return the path for a new file of this process."""
        raise NotImplementedError(f"{type(self).__name__} has no path")

    def _own(self) -> _File | None:
        """Return this process's file, or None if it has not opened one since it was forked."""
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
        """Report the first of several failures to write, and the first success after them."""
        if error is not None and not self._failing:
            text = error if isinstance(error, OSError) else repr(error)
            _say(f"the log is not written to its file from now on: {text}")
        if error is None and self._failing:
            _say("the log is written to its file again")
        self._failing = error is not None

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the handler's lock. The logging module resets this lock in forked processes."""
        assert self.lock is not None
        with self.lock:
            yield


class LogFile(_PathHandler):
    """A handler that writes to a file in `directory`, named after the program and the process.

    In a remote store, the file is a series of parts.
    """

    def __init__(self, directory: str, program: str) -> None:
        """Create the directory. Raises an OSError naming it if that fails."""
        gfile.MakeDirs(directory)
        super().__init__()
        self._directory = directory
        self._program = program

    def follow(self) -> None:
        """In a forked process, open the parent's file or, in a remote store, `PATH.native`.

        Processes can share a local file, but in a store, each needs its own path.
        """
        with self._held():
            path = self._file.path if self._file else self._path()
            self._open(f"{path}.native" if gfile.is_remote(path) else path)

    def _path(self) -> str:
        return os.path.join(self._directory, file_name(self._program))


class RemoteLog(_PathHandler):
    """A handler that writes a log to one remote path in parts. Create it with `remote_log`."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._named = path
        self._maker = os.getpid()

    def _path(self) -> str:
        # Processes need distinct file names, or they would overwrite each other's parts.
        return self._named if os.getpid() == self._maker else f"{self._named}.{os.getpid()}"


def remote_log(path: str) -> RemoteLog:
    """Return this process's handler for a path. All of torch's loggers share it."""
    with _remote_lock:
        key = (path, os.getpid())
        if key not in _remote_logs:
            _remote_logs[key] = RemoteLog(path)
        return _remote_logs[key]


def file_name(program: str) -> str:
    """Return `PROGRAM.HOST.USER.log.INFO.YYYYMMDD-HHMMSS.PID`, with the current time."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"{program.replace(os.sep, '_')}.{_host()}.{_user()}.log.INFO.{stamp}.{os.getpid()}"


class _File(Protocol):
    path: str

    def write(self, line: bytes, urgent: bool) -> None: ...
    def settle(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _LocalFile:
    """A local file that is written with one write() call per record.

    Lines therefore stay intact even if several processes write to the file, or if one is killed.
    """

    def __init__(self, path: str, report: Callable[[Exception | None], None]) -> None:
        self._report = report
        self.path, opened = open_own(path)
        # If descriptor 2 is closed, open() may return 2. Then C++ code would write its stderr
        # output into the log.
        self._descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
        os.close(opened)
        self._cut = False

    def write(self, line: bytes, urgent: bool) -> None:
        del urgent
        if self._cut:  # a full disk truncated the last line
            line = b"\n" + line
        begin = line
        try:
            while line:  # a signal or a full pipe may end a write early
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
    """A log stored as parts `PATH.0000`, `PATH.0001`, ..., each written once, in full.

    Numbering continues after existing parts, so reopening a log keeps its earlier parts.
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
        # The number of records queued so far, and the number of those that are stored.
        self._queued = 0
        self._stored = 0
        self._prompt = True
        self._closed = False
        # This lock guards only the queue, so threads hold it only briefly. It is reentrant, because
        # a finalizer or a signal handler may interrupt any line here and log.
        self._lock = threading.RLock()
        self._some = threading.Condition(self._lock)
        # A thread holds this lock while it uploads. Threads that only log never wait for it.
        self._upload_lock = threading.Lock()
        threading.Thread(target=self._write_parts, name="log parts", daemon=True).start()
        # Child processes of multiprocessing run these finalizers, but no atexit handlers.
        multiprocessing_util.Finalize(None, self.flush, exitpriority=0)

    def write(self, line: bytes, urgent: bool) -> None:
        with self._lock:
            self._waiting.append(line)
            self._bytes += len(line)
            self._queued += 1
            # Records logged during an upload by the uploading thread do not trigger another
            # upload, or uploads might never end.
            if (urgent or self._bytes >= PART_BYTES) and not _here.uploading:
                self._due = True
            self._some.notify_all()

    def settle(self) -> None:
        """Wait, with a timeout, until all records written so far are stored.

        The timeout prevents a deadlock: the client's upload may itself be waiting for this thread.
        After a timeout, no thread waits again until an upload has succeeded.
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
        """Upload the queued records; put them back in the queue if that fails."""
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
        """Write the next part; return False if a part with its number already exists."""
        # An earlier attempt to upload this part may have stored it. If so, overwrite it.
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
                # Pause, because a client that logs an error in each upload would otherwise keep
                # this loop busy.
                pause = AGAIN_SECONDS if self._due_again else 0.0
            with self._lock:
                self._some.wait_for(lambda: self._closed, pause)


class _Here(threading.local):
    """Per-thread state: whether the thread is uploading a part of any log."""

    uploading = False


def _say(text: str) -> None:
    """Report a failure on standard error, because the log itself cannot be written."""
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
    except (KeyError, OSError):  # the system has no name for this user ID
        return str(os.getuid())


_here = _Here()
_remote_lock = threading.Lock()
_remote_logs: dict[tuple[str, int], RemoteLog] = {}
