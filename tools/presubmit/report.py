# SPDX-License-Identifier: Apache-2.0
"""Print progress and results, one line per check. On a terminal, update the elapsed time."""

from __future__ import annotations

import collections.abc
import contextlib
import threading
import time
import typing

_REDRAW_SECONDS = 0.2


class Report:
    """A progress report on `stream`. On a terminal, the line of a running check is redrawn."""

    def __init__(self, stream: typing.TextIO, *, total: int) -> None:
        self._stream = stream
        self._total = total
        self._started = 0
        self._live = stream.isatty()

    @contextlib.contextmanager
    def running(self, name: str) -> collections.abc.Iterator[Row]:
        """Show that a check is running. When the `with` block ends, print the finished line.

        The `with` block sets the `outcome` of the row that this method yields.
        """
        self._started += 1
        row = Row(f"[{self._started:2d}/{self._total}] {name:<12}")
        stop = threading.Event()
        painter = threading.Thread(target=self._paint, args=(row, stop), daemon=True)
        if self._live:
            painter.start()
        try:
            yield row
        finally:
            stop.set()
            if self._live:
                painter.join()
                self._stream.write("\r\x1b[K")
            self._stream.write(f"{row.text()}  {row.outcome}\n")
            self._stream.flush()

    def line(self, text: object) -> None:
        """Write `text` and a newline."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def _paint(self, row: Row, stop: threading.Event) -> None:
        while not stop.wait(_REDRAW_SECONDS):
            self._stream.write(f"\r{row.text()}  ...")
            self._stream.flush()


class Row:
    """The line of one check: its label, elapsed time and outcome."""

    def __init__(self, label: str) -> None:
        self.outcome = "stopped"
        self._label = label
        self._since = time.monotonic()

    def text(self) -> str:
        """Return the label and the elapsed seconds."""
        return f"{self._label} {time.monotonic() - self._since:5.1f} s"
