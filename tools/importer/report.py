# SPDX-License-Identifier: Apache-2.0
"""The output of a command: to a terminal, as plain lines of text, or as a JSON document.

Result lines go to standard output, but progress never does. On a terminal, progress is a bar.
Otherwise, each step that takes more than a second prints a line to standard error. With `--json`,
standard output is a single document.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_QUIET_SECONDS = 1.0
_REPEAT_SECONDS = 10.0


class Progress(Protocol):
    """The progress of a running step."""

    def advance(self, n: int = 1) -> None:
        """Add `n` to the number of finished units. This is thread-safe."""


class Report(Protocol):
    """The interface through which commands and libraries produce output, instead of printing it."""

    def say(self, line: str) -> None:
        """Show a line to the user."""

    def progress(self, label: str, total: int | None = None) -> AbstractContextManager[Progress]:
        """Show the progress of a step within this context. `total` is None if unknown."""

    def result(self, data: Mapping[str, object]) -> None:
        """Write the machine-readable result as JSON data. Call this once per command."""


def make_report(*, as_json: bool, out: TextIO | None = None, err: TextIO | None = None) -> Report:
    """Return a JSON report if `as_json` is set, else a terminal report or a plain-text report."""
    out, err = out or sys.stdout, err or sys.stderr
    if as_json:
        return JsonReport(out)
    if out.isatty() and err.isatty():
        return TerminalReport(out)
    return PlainReport(out, err)


def tell(line: str, file: TextIO) -> None:
    """Print a line. If the reader (such as `head`) has closed the pipe, drop the line."""
    try:
        print(line, file=file, flush=True)
    except BrokenPipeError:
        _drop(file)


def flush(file: TextIO) -> None:
    """Flush buffered output before the program exits."""
    try:
        file.flush()
    except BrokenPipeError:
        _drop(file)


def _drop(file: TextIO) -> None:
    """Redirect a stream to /dev/null, because flushing it again at exit would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, file.fileno())
    finally:
        os.close(nowhere)


class PlainReport:
    """A report as plain lines of text, for logs and pipes."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err

    def say(self, line: str) -> None:
        tell(line, self._out)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Progress]:
        step = _PlainProgress(label, total, self._err)
        try:
            yield step
        finally:
            step.stop()

    def result(self, data: Mapping[str, object]) -> None:
        """Do nothing, because the printed lines already contain the result."""


class TerminalReport:
    """A report as lines of text, with progress bars below them while steps are running."""

    def __init__(self, out: TextIO) -> None:
        # Imported lazily, because importing rich takes as long as running a short command, and
        # scripts never need it.
        from rich.console import Console

        self._console = Console(file=out)
        self._bars: RichProgress | None = None
        self._open = 0

    def say(self, line: str) -> None:
        # Paths and patches are untrusted text, so turn off markup, highlighting and line wrapping.
        self._console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Progress]:
        bars = self._bars = self._bars or _bars(self._console)
        if not self._open:
            bars.start()
        self._open += 1
        task = bars.add_task(label, total=total)
        try:
            yield _TerminalProgress(bars, task)
        finally:
            bars.remove_task(task)
            self._open -= 1
            if not self._open:
                bars.stop()

    def result(self, data: Mapping[str, object]) -> None:
        """Do nothing, because the printed lines already contain the result."""


class JsonReport:
    """A report whose only output is a JSON document on standard output."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.answered = False

    def say(self, line: str) -> None:
        """Ignore progress messages, because programs that read this report do not need them."""

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Progress]:
        yield _NoProgress()

    def result(self, data: Mapping[str, object]) -> None:
        if self.answered:
            raise RuntimeError(
                "a command reports one result: a second document would break the JSON"
            )
        text = json.dumps(data, indent=2)
        self.answered = True
        tell(text, self._out)


class _NoProgress:
    def advance(self, n: int = 1) -> None:
        """Do nothing, because --json shows no progress."""


class _PlainProgress:
    """Progress shown as a line after the first second of a step, then every ten seconds."""

    def __init__(self, label: str, total: int | None, err: TextIO) -> None:
        self._label, self._total, self._err = label, total, err
        self._done = 0
        self._next = time.monotonic() + _QUIET_SECONDS
        self._timer = threading.Timer(_QUIET_SECONDS, self._tell)
        self._timer.daemon = True
        self._timer.start()

    def advance(self, n: int = 1) -> None:
        self._done += n
        if time.monotonic() >= self._next:
            self._tell()

    def stop(self) -> None:
        self._timer.cancel()

    def _tell(self) -> None:
        self._next = time.monotonic() + _REPEAT_SECONDS
        count = f" {self._done}/{self._total}" if self._total else ""
        tell(f"{self._label} ...{count}", self._err)


class _TerminalProgress:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def advance(self, n: int = 1) -> None:
        self._bars.advance(self._task, n)


def _bars(console: object) -> RichProgress:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,  # a line of text replaces the bar of a finished step
        redirect_stdout=False,
        redirect_stderr=False,
    )
