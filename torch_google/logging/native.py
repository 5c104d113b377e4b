# SPDX-License-Identifier: Apache-2.0
"""A relay that turns torch's C++ messages on standard error into log records.

C++ code in torch's releases logs only to file descriptor 2. `Relay` replaces the descriptor with a
pipe that a small process reads. A thread could not read it: C++ code that holds the GIL could fill
the pipe and deadlock. The relay process also survives a crash of the program and reads the pipe to
its end, so it does not lose the last messages, which explain the crash.

The relay process turns torch's lines into records for the same handlers and passes other text
through unchanged. Python's sys.stderr still writes to the terminal, not to the pipe.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STDERR = 2
_CHUNK = 1 << 16
# The maximum number of seconds that an exiting process waits for its relay, which exits only when
# all processes that inherited the pipe have closed it.
_END_SECONDS = 2.0
# The number of seconds for which the relay holds back an unfinished line that is not part of a C++
# message.
_LINE_SECONDS = 0.1

# `[rank3]:[W102 03:04:05.678901234 socket.cpp:955] [c10d] text`, as c10 writes it.
_MESSAGE = re.compile(
    rb"(?:\[rank\d+\]:)?\[([VIWEF])\d{3,4} \d\d:\d\d:\d\d\.\d+ ([^\s:\]]+):(\d+)\] ?(.*)", re.DOTALL
)
# The start of a line that another process has already formatted for the log stream. Such a line is
# not part of a multi-line C++ message that precedes it.
_STREAM_LINE = re.compile(rb"[DIWEFC]\d{4} \d\d:\d\d:\d\d\.\d+ |\{\"time\": ")
_LEVELS = {
    b"V": logging.DEBUG,
    b"I": logging.INFO,
    b"W": logging.WARNING,
    b"E": logging.ERROR,
    b"F": logging.CRITICAL,
}
LOGGER = "torch.cpp"

Handle = Callable[[logging.LogRecord], object]


class Relay:
    """A relay that replaces file descriptor 2 until `stop` is called. At most one per process."""

    def __init__(self, handle: Handle, end: Callable[[], object]) -> None:
        """Start the relay process, which calls `handle` with each record, then `end`."""
        if sys.stderr is not None:  # None if the program was started with standard error closed
            sys.stderr.flush()
        self._pid = os.getpid()
        _have_stderr()
        self._terminal = os.dup(_STDERR)
        source, sink = os.pipe()
        self._ended, ending = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            _run(source, self._terminal, ending, self._pid, handle, end)
        os.close(source)
        os.close(ending)
        os.dup2(sink, _STDERR)
        os.close(sink)
        self._stream = sys.stderr
        if _is_descriptor(sys.stderr, _STDERR):
            sys.stderr = io.TextIOWrapper(
                _Unbuffered(os.dup(self._terminal), "w"),
                encoding=self._stream.encoding,
                errors=self._stream.errors,
                # Buffer whole lines, as Python's own stream does: the interpreter prints a
                # traceback line in pieces, and the relay could write between them.
                line_buffering=True,
                # `write_through` is true if PYTHONUNBUFFERED is set.
                write_through=getattr(self._stream, "write_through", False),
            )

    def stop(self) -> None:
        """Restore descriptor 2 and wait until the relay has passed on everything written so far."""
        if os.getpid() != self._pid:  # in a forked process, the relay belongs to the parent
            return
        try:
            if sys.stderr is not self._stream:
                replacement, sys.stderr = sys.stderr, self._stream
                replacement.flush()
        finally:  # restore the descriptor even if the program closed it
            os.dup2(self._terminal, _STDERR)
            os.close(self._terminal)
            poll = select.poll()  # select() rejects descriptors >= 1024
            poll.register(self._ended, select.POLLIN)
            poll.poll(_END_SECONDS * 1000)
            os.close(self._ended)
            # If the relay is still running, it outlives this process, and init will reap it. If the
            # program called waitpid(-1), it may have reaped the relay already.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._child, os.WNOHANG)


class _Unbuffered(io.FileIO):
    """An unbuffered file, because a process forked while a buffer's lock is held could deadlock.

    After a fork, Python resets only the locks of its own standard streams.
    """

    def write(self, data: Buffer) -> int:
        """Write all data, with as many system calls as needed."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            rest = rest[os.write(self.fileno(), rest) :]
        return size


def parse(text: bytes, pid: int) -> logging.LogRecord | None:
    """Return the record for a C++ message from torch, or None if `text` is not one."""
    match = _MESSAGE.fullmatch(text.rstrip(b"\n"))
    if match is None:
        return None
    severity, file, line, message = match.groups()
    record = logging.LogRecord(
        LOGGER,
        _LEVELS[severity],
        file.decode(errors="replace"),
        int(line),
        message.decode(errors="replace").rstrip(),
        None,
        None,
    )
    record.process = pid
    return record


def _run(
    source: int,
    terminal: int,
    ending: int,
    pid: int,
    handle: Handle,
    end: Callable[[], object],
) -> NoReturn:
    """Run the relay until every writer has closed the pipe."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        os.dup2(terminal, _STDERR)
        _close_others({0, 1, _STDERR, source, ending})
        sys.stderr = open(_STDERR, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        _copy(source, pid, handle)
        end()
        status = 0
    finally:
        os._exit(status)


def _copy(source: int, pid: int, handle: Handle) -> None:
    """Relay everything from the pipe until it is closed."""
    output = _Output(pid, handle)
    poll = select.poll()  # select() rejects descriptors >= 1024
    poll.register(source, select.POLLIN)
    while True:
        if not poll.poll(output.patience()):
            output.release()
        elif chunk := os.read(source, _CHUNK):
            # Drop NULs: torch's message about a crashing DataLoader worker ends with one.
            output.add(chunk.replace(b"\0", b""))
        else:
            break
    output.end()


class _Output:
    """The relay's output: records, and other text in whole lines.

    C++ code writes a line in pieces (`std::cerr << "step " << 1 << std::endl` makes three writes),
    and the program may log between two of them. So the relay holds back an unfinished line, but
    only briefly, because it may be a prompt.
    """

    def __init__(self, pid: int, handle: Handle) -> None:
        self._pid = pid
        self._handle = handle
        self._held = b""
        self._deadline: float | None = None  # None if the held text is empty or part of a message
        self._in_line = False  # whether the last write ended in the middle of a line

    def patience(self) -> float | None:
        """Return the number of milliseconds to wait for more text; None means no timeout."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - time.monotonic()) * 1000

    def add(self, text: bytes) -> None:
        """Write whole lines and log complete records; hold back the rest."""
        text = self._held + text
        self._held = b""
        for start, part in _parts(text):
            record = parse(part, self._pid)
            if record is None:
                end = max(part.rfind(b"\n"), part.rfind(b"\r")) + 1
                self._write(part[:end])
                self._held = part[end:]  # only the last part can be unfinished
            elif part.endswith(b"\n"):
                self._log(record)
            else:
                self._held = text[start:]
                self._deadline = None
                return
        if not self._held:
            self._deadline = None
        elif len(self._held) > _CHUNK:
            self.release()
        elif self._deadline is None:
            self._deadline = time.monotonic() + _LINE_SECONDS

    def release(self) -> None:
        """Write the text that was held back, even though its line is unfinished."""
        self._write(self._held)
        self._held = b""
        self._deadline = None

    def end(self) -> None:
        """After the pipe has been closed, write or log the text that was held back."""
        record = parse(self._held, self._pid)
        if record is None:
            self.release()
        else:
            self._log(record)

    def _log(self, record: logging.LogRecord) -> None:
        if self._in_line:
            self._write(b"\n")
        self._handle(record)

    def _write(self, text: bytes) -> None:
        if text:
            self._in_line = not text.endswith(b"\n")
            _write(text)


def _parts(text: bytes) -> list[tuple[int, bytes]]:
    """Split `text` before and after each C++ message; return the parts with their offsets.

    torch writes a message in one call. So the following lines in the same chunk belong to it, up to
    a line that starts another message or is formatted for the stream.
    """
    starts: list[int] = []
    position = 0
    inside = True
    for line in text.splitlines(keepends=True):
        message = _MESSAGE.fullmatch(line.rstrip(b"\n")) is not None
        if message or not starts or (inside and _STREAM_LINE.match(line)):
            starts.append(position)
            inside = message
        position += len(line)
    return [
        (start, text[start:end])
        for start, end in zip(starts, [*starts[1:], position], strict=False)
    ]


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_STDERR, data) :]


def _have_stderr() -> None:
    """If descriptor 2 is closed, open /dev/null there, so that no other file gets that number."""
    try:
        os.fstat(_STDERR)
    except OSError:
        opened = os.open(os.devnull, os.O_WRONLY)
        if opened != _STDERR:
            os.dup2(opened, _STDERR)
            os.close(opened)


def _close_others(excluded: set[int]) -> None:
    """Close inherited descriptors, because a socket stays open until every copy is closed."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in excluded:
            with contextlib.suppress(OSError):  # listdir has already closed its own descriptor
                os.close(int(name))


def _is_descriptor(stream: object, number: int) -> bool:
    try:
        return stream.fileno() == number  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
