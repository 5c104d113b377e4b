# SPDX-License-Identifier: Apache-2.0
"""Processes that say how they ended: exit status, signal and traceback reach whoever waits for them."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import Any

from torch_google.multiprocessing import origin, reports

# Between SIGTERM and SIGKILL for those that are ended because another failed, in seconds.
GRACE_SECONDS = 10.0


class ProcessFailedError(RuntimeError):
    """A child ended otherwise than by status 0.

    `name` and `pid` are the child's; `exitcode` is its status, or minus the number of the signal that
    killed it; `traceback` is what it said about it, of an exception or of a crash, empty if nothing.
    """

    def __init__(self, name: str, pid: int, exitcode: int, traceback: str = "") -> None:
        super().__init__(name, pid, exitcode, traceback)
        self.name = name
        self.pid = pid
        self.exitcode = exitcode
        self.traceback = traceback

    def __str__(self) -> str:
        how = _signal(-self.exitcode) if self.exitcode < 0 else f"exit status {self.exitcode}"
        return f"process {self.name} (pid {self.pid}) ended by {how}: {_gist(self.traceback)}"


class Process:
    """A process of its own for a function; `join` raises when it failed."""

    def __init__(
        self,
        target: Callable[..., object],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        daemon: bool | None = None,
        start_method: str | None = None,
    ) -> None:
        """Prepare `target(*args, **kwargs)`; `start_method` is the program's default when None."""
        origin.install()
        context: Any = multiprocessing.get_context(start_method)
        self._process: multiprocessing.Process = context.Process(
            target=target, args=tuple(args), kwargs=dict(kwargs or {}), name=name, daemon=daemon
        )
        self._failure: ProcessFailedError | None = None

    @property
    def name(self) -> str:
        """What logs call it."""
        return self._process.name

    @property
    def pid(self) -> int | None:
        """Its id, None before it is started."""
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        """Its status, minus the number of a signal, or None while it runs."""
        return self._process.exitcode

    @property
    def sentinel(self) -> int:
        """Ready when it has ended, for multiprocessing.connection.wait."""
        return self._process.sentinel

    def start(self) -> None:
        """Start it."""
        self._process.start()

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self._process.terminate()

    def kill(self) -> None:
        """End it (SIGKILL)."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for its end, at most `timeout` seconds; return its exit code, None if it still runs."""
        self._process.join(timeout)
        return self._process.exitcode

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end, at most `timeout` seconds; return whether it has ended.

        Raises ProcessFailedError if it failed, each time.
        """
        status = self.wait(timeout)
        if status is None:
            return False
        if status != 0 and self._failure is None:
            assert self.pid is not None
            said = reports.listener().take(self.pid)
            self._failure = ProcessFailedError(self.name, self.pid, status, said)
        if self._failure is not None:
            raise self._failure
        return True


def spawn(
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    *,
    name: str | None = None,
    start_method: str | None = None,
) -> None:
    """Run `fn(index, *args)` in `nprocs` processes and wait for all.

    Names are `name-0`, ...; `name` is the function's when None. When one fails the others are ended, and
    ProcessFailedError is that of the first.
    """
    if nprocs < 1:
        raise ValueError(f"spawn: nprocs is {nprocs}, and must be 1 or more")
    label = name or getattr(fn, "__name__", type(fn).__name__)
    processes = [
        Process(fn, (index, *args), name=f"{label}-{index}", start_method=start_method)
        for index in range(nprocs)
    ]
    started: list[Process] = []
    try:
        for process in processes:
            process.start()
            started.append(process)
        running = {process.sentinel: process for process in started}
        while running:
            for sentinel in connection.wait(list(running)):
                running.pop(sentinel).join()  # type: ignore[arg-type]
    finally:
        _end(started)


def _end(processes: Sequence[Process]) -> None:
    alive = [process for process in processes if process.is_alive()]
    for process in alive:
        process.terminate()
    until = time.monotonic() + GRACE_SECONDS
    for process in alive:
        process.wait(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
        process.wait()


def _gist(traceback: str) -> str:
    """Return the line that says most; the log has all of them."""
    lines = traceback.splitlines()
    if not lines:
        return "it said nothing about why"
    return lines[0] if lines[0].startswith("Fatal Python error") else lines[-1]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
