# SPDX-License-Identifier: Apache-2.0
"""What C++ code writes to standard error, in the stream: torch's messages with severity, file and line.

The released torch logs from C++ to file descriptor 2 and to nothing else. `Relay` puts a pipe there, and
a small process at its other end. A thread of this process would not do: C++ code that holds the
interpreter's lock could fill the pipe and wait for ever. A process also outlives a crash and reads the
pipe to its end, so what was written last, which matters most then, arrives.

torch's lines become records that the process hands to the same handlers; everything else passes
unchanged. Python's own sys.stderr keeps the terminal and never passes through the pipe.
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
# How long a process that ends waits for its relay: others may still hold the pipe, and write to it.
_END_SECONDS = 2.0
# How long an unfinished line of other text waits for its rest.
_LINE_SECONDS = 0.1

# `[rank3]:[W102 03:04:05.678901234 socket.cpp:955] [c10d] text`, as c10 writes it.
_MESSAGE = re.compile(
    rb"(?:\[rank\d+\]:)?\[([VIWEF])\d{3,4} \d\d:\d\d:\d\d\.\d+ ([^\s:\]]+):(\d+)\] ?(.*)", re.DOTALL
)
# What ends a message of several lines: a line that another process has put into the stream already.
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
    """Takes file descriptor 2 until `stop`. There may be one in a process at a time."""

    def __init__(self, handle: Handle, end: Callable[[], object]) -> None:
        """Start the process, which calls `handle` with each record, and `end` after the last one."""
        if sys.stderr is not None:  # a program that was started without
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
                # As Python's own: the interpreter writes a traceback's line in pieces, and the relay
                # may write between two writes to the terminal.
                line_buffering=True,
                write_through=getattr(self._stream, "write_through", False),  # PYTHONUNBUFFERED
            )

    def stop(self) -> None:
        """Give the descriptor back, and wait until what was written so far is in the stream."""
        if os.getpid() != self._pid:  # a forked process: the relay is its parent's
            return
        try:
            if sys.stderr is not self._stream:
                ours, sys.stderr = sys.stderr, self._stream
                ours.flush()
        finally:  # the program may have closed it
            os.dup2(self._terminal, _STDERR)
            os.close(self._terminal)
            poll = select.poll()  # select() refuses numbers from 1024 on
            poll.register(self._ended, select.POLLIN)
            poll.poll(_END_SECONDS * 1000)
            os.close(self._ended)
            # It ends when the last process that was started meanwhile closes the pipe; then init has it.
            # A program that waits for all its children may have had it before.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._child, os.WNOHANG)


class _Unbuffered(io.FileIO):
    """Without the lock of a buffer: a process that is forked while a thread holds it waits for ever.

    Python frees those of its own standard streams there, and of no others.
    """

    def write(self, data: Buffer) -> int:
        """Write all of it, in as many pieces as the kernel takes."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            rest = rest[os.write(self.fileno(), rest) :]
        return size


def parse(text: bytes, pid: int) -> logging.LogRecord | None:
    """Return the record of a message by torch's C++ code, or None if `text` is something else."""
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
    """Be the relay, until nobody can write to the pipe any more."""
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
    """Pass on everything from the pipe, up to its end."""
    output = _Output(pid, handle)
    poll = select.poll()  # select() refuses numbers from 1024 on
    poll.register(source, select.POLLIN)
    while True:
        if not poll.poll(output.patience()):
            output.release()
        elif chunk := os.read(source, _CHUNK):
            # torch ends what a crashing DataLoader worker says with one, and the next line begins with it.
            output.add(chunk.replace(b"\0", b""))
        else:
            break
    output.end()


class _Output:
    """Hands on records, and other text in whole lines.

    C++ code writes a line in pieces (`std::cerr << "step " << 1 << std::endl` is three), and between two
    of them the program itself may log. So an unfinished line waits for its rest, but not for long: it
    may be a prompt.
    """

    def __init__(self, pid: int, handle: Handle) -> None:
        self._pid = pid
        self._handle = handle
        self._held = b""
        self._deadline: float | None = None  # None: nothing is held, or a message, which has an end
        self._in_line = False  # the text before, written here, has not ended its line

    def patience(self) -> float | None:
        """Return how many milliseconds the held text may wait for its rest, None for no limit."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - time.monotonic()) * 1000

    def add(self, text: bytes) -> None:
        """Pass on what is whole, hold the rest."""
        text = self._held + text
        self._held = b""
        for start, part in _parts(text):
            record = parse(part, self._pid)
            if record is None:
                end = max(part.rfind(b"\n"), part.rfind(b"\r")) + 1
                self._write(part[:end])
                self._held = part[end:]  # of the last part: the others end with a line
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
        """Pass on an unfinished line."""
        self._write(self._held)
        self._held = b""
        self._deadline = None

    def end(self) -> None:
        """Pass on what is held: nothing more will come."""
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
    """Cut before each message, and after it.

    torch writes a message at once, so lines that come with it and begin nothing else are its own.
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
    """Where the descriptor is closed, open it to nowhere: another file would get its number."""
    try:
        os.fstat(_STDERR)
    except OSError:
        opened = os.open(os.devnull, os.O_WRONLY)
        if opened != _STDERR:
            os.dup2(opened, _STDERR)
            os.close(opened)


def _close_others(kept: set[int]) -> None:
    """Close what was inherited: a socket or a pipe that stayed open here would keep others waiting."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(int(name))


def _is_descriptor(stream: object, number: int) -> bool:
    try:
        return stream.fileno() == number  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
