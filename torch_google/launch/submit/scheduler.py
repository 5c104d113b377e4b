# SPDX-License-Identifier: Apache-2.0
"""Code shared by all schedulers: job descriptions, and a job's processes on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TextIO

# Seconds between SIGTERM and SIGKILL. torchrun needs up to 30 s to stop its workers.
GRACE = 40.0
_POLL = 0.05


@dataclasses.dataclass(frozen=True)
class Job:
    """A program to run in `processes` processes on each of `machines` machines.

    fewest: the minimum number of machines that the job needs to continue; None if it needs all.
    restarts: how many times torchrun may restart the processes after a failure.
    """

    par: Path
    arguments: tuple[str, ...]
    machines: int = 1
    processes: int = 1
    fewest: int | None = None
    restarts: int = 0

    @property
    def spare(self) -> int:
        """The number of machines that may fail without ending the job."""
        return 0 if self.fewest is None else self.machines - self.fewest

    def __post_init__(self) -> None:
        for name in ("machines", "processes"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name}={getattr(self, name)}: expected 1 or more")
        if self.fewest is not None and not 1 <= self.fewest <= self.machines:
            raise ValueError(f"--min-machines={self.fewest}: expected 1 to {self.machines}")
        if self.restarts < 0:
            raise ValueError(f"--max-restarts={self.restarts}: expected 0 or more")

    def command(self, log_directory: Path) -> list[str]:
        """Return the command for one machine. It prefixes each output line with the rank."""
        options = [f"--nproc-per-node={self.processes}", "--tee=3", f"--log-dir={log_directory}"]
        if self.fewest is not None:
            options.append(f"--nnodes={self.fewest}:{self.machines}")
        if self.restarts:
            options.append(f"--max-restarts={self.restarts}")
        return [str(self.par), *options, "--", *self.arguments]


class SubmitError(Exception):
    """Raised if a job cannot be submitted. The message is one line."""


class Cancelled(Exception):
    """Raised after SIGINT (Ctrl-C) or SIGTERM. signal: the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.signal = number


@contextlib.contextmanager
def cancellable() -> Iterator[None]:
    """Raise Cancelled in the main thread at the first SIGINT or SIGTERM; ignore further ones."""

    def cancel(number: int, _frame: FrameType | None) -> None:
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)
        raise Cancelled(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, cancel)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say(text: str) -> None:
    print(f"submit: {text}", file=sys.stderr, flush=True)


class Lines:
    """A stream to which several threads write whole lines."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        with self._lock:
            self._output.write(line if line.endswith("\n") else line + "\n")
            self._output.flush()


class Processes:
    """A job's processes on this machine. Their output goes to one stream, in whole lines.

    read: a callback that is called with each line before it is written, from several threads.
    """

    def __init__(self, output: TextIO, read: Callable[[str], None] = lambda line: None) -> None:
        self._lines = Lines(output)
        self._read = read
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []

    def start(self, command: list[str], env: Mapping[str, str]) -> None:
        process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            # In its own session, the child gets no SIGINT on Ctrl-C, so this process can stop it
            # cleanly.
            start_new_session=True,
        )
        thread = threading.Thread(target=self._copy, args=(process,), daemon=True)
        thread.start()
        self._processes.append(process)
        self._threads.append(thread)

    def _copy(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._read(line)
            self._lines.write(line)

    def wait(
        self, ended: Callable[[int, int], None] = lambda number, status: None, *, spare: int = 0
    ) -> int:
        """Wait for all processes. Return 0, or the exit status of the first that failed.

        If more than `spare` fail, stop the others, because they would wait for the failed ones.
        ended: a callback that is called with the index and the status of each process when it
        exits.
        """
        running = dict(enumerate(self._processes))
        failures: list[int] = []
        while running:
            for number, process in list(running.items()):
                status = process.poll()
                if status is None:
                    continue
                del running[number]
                status = status if status >= 0 else 128 - status
                ended(number, status)
                if status:
                    failures.append(status)
                    if len(failures) == spare + 1:
                        self.stop()
            time.sleep(_POLL)
        self._drain()
        return failures[0] if len(failures) > spare else 0

    def join(self, seconds: float) -> None:
        """Wait up to `seconds` for all processes to exit."""
        deadline = time.monotonic() + seconds
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0))
        self._drain()

    def stop(self, grace: float = GRACE) -> None:
        """Send SIGTERM to running processes; SIGKILL their process groups after `grace` seconds."""
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + grace
        for process in running:
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._drain()

    def _drain(self) -> None:
        """Copy the remaining output, with a timeout, because a worker may outlive torchrun."""
        for thread in self._threads:
            thread.join(timeout=5)
