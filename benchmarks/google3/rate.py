# SPDX-License-Identifier: Apache-2.0
"""Measure CPU time and lost log lines while four processes log a thousand lines per second each."""

from __future__ import annotations

import logging as python_logging
import os
import re
import time
from pathlib import Path

from benchmarks.google3 import records
from benchmarks.google3.row import Row, Sizes, Work, clear
from torch_google import logging

PROCESSES = 4
RATE = 1000  # lines per second that each process logs


def rows(sizes: Sizes) -> list[Row]:
    """Return a single comparison, which logs for `sizes.seconds` seconds."""
    log = python_logging.getLogger("benchmarks.google3").info
    lines = int(RATE * sizes.seconds)

    def description(directory: Path) -> str:
        stderr = (directory / records.STDERR).read_text()
        files = "".join(path.read_text() for path in (directory / records.FILES).iterdir())
        messages = {f"process {n} line {m}" for n in range(PROCESSES) for m in range(lines)}
        lost = max(
            len(messages.difference(re.findall(r"\] (process \d line \d+)\n", text)))
            for text in (stderr, files)
        )
        slowest = max(float(path.read_text()) for path in directory.glob("seconds-*"))
        return f"{lines / slowest:.0f} lines/s each, {lost} of {len(messages):,} lost"

    return [
        Row(
            f"{PROCESSES} processes at {RATE:,} lines/s, stderr and files, beside Python's logging",
            _crowd(records.python_stream, log, lines),
            _crowd(records.our_stream, logging.info, lines),
            None,
            clear,
            description,
        )
    ]


def _crowd(stream: records.Stream, log: records.Log, lines: int) -> Work:
    def work(directory: Path) -> None:
        children = []
        for number in range(PROCESSES):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    with stream(directory, file=True):
                        seconds = _talk(log, number, lines)
                    (directory / f"seconds-{number}").write_text(str(seconds))
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
        if failed:
            raise RuntimeError(f"{failed} of {PROCESSES} processes failed")

    return work


def _talk(log: records.Log, number: int, lines: int) -> float:
    """Log `lines` lines at RATE lines per second, and return the elapsed seconds."""
    begin = time.perf_counter()
    for line in range(lines):
        wait = begin + line / RATE - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        log("process %d line %d", number, line)
    return max(time.perf_counter() - begin, lines / RATE)
