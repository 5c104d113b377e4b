# SPDX-License-Identifier: Apache-2.0
"""Child processes that report their exit status, signal and traceback to the waiting parent."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import Any

from torch_google.multiprocessing import origin, reports

# Seconds between SIGTERM and SIGKILL when one process has failed and the others are terminated.
GRACE_SECONDS = 10.0


class ProcessFailedError(RuntimeError):
    """Raised if a child process exited with a nonzero status.

    `name` and `pid` identify the child. `exitcode` is its status, or minus the number of the signal
    that killed it. `traceback` shows its exception or crash, or is "" if the child sent none.
    """

    def __init__(self, name: str, pid: int, exitcode: int, traceback: str = "") -> None:
        super().__init__(name, pid, exitcode, traceback)
        self.name = name
        self.pid = pid
        self.exitcode = exitcode
        self.traceback = traceback

    def __str__(self) -> str:
        ending = _signal(-self.exitcode) if self.exitcode < 0 else f"exit status {self.exitcode}"
        return f"process {self.name} (pid {self.pid}) ended by {ending}: {_gist(self.traceback)}"


class Process:
    """A child process that runs a function. `join` raises if the process failed."""

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
        """Prepare a process that will run `target(*args, **kwargs)`.

        If `start_method` is None, the program's default applies.
        """
        origin.install()
        context: Any = multiprocessing.get_context(start_method)
        self._process: multiprocessing.Process = context.Process(
            target=target, args=tuple(args), kwargs=dict(kwargs or {}), name=name, daemon=daemon
        )
        self._failure: ProcessFailedError | None = None

    @property
    def name(self) -> str:
        """The process's name, which its log records contain."""
        return self._process.name

    @property
    def pid(self) -> int | None:
        """The process id; None before the process starts."""
        return self._process.pid

    @property
    def exitcode(self) -> int | None:
        """The exit status, or minus the number of the fatal signal; None while the process runs."""
        return self._process.exitcode

    @property
    def sentinel(self) -> int:
        """A handle for multiprocessing.connection.wait; it becomes ready when the process exits."""
        return self._process.sentinel

    def start(self) -> None:
        """Start the process."""
        self._process.start()

    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.is_alive()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait at most `timeout` seconds. Return the exit code, or None if there is none yet."""
        self._process.join(timeout)
        return self._process.exitcode

    def join(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for the process to exit. Return whether it has exited.

        If the process failed, every call raises ProcessFailedError.
        """
        status = self.wait(timeout)
        if status is None:
            return False
        if status != 0 and self._failure is None:
            assert self.pid is not None
            traceback = reports.listener().take(self.pid)
            self._failure = ProcessFailedError(self.name, self.pid, status, traceback)
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
    """Run `fn(index, *args)` in `nprocs` processes and wait for all of them.

    The processes are named `name-0`, `name-1`, ...; `name` defaults to the function's name. If one
    process fails, the others are terminated and its ProcessFailedError is raised.
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
    """Return the most informative line of a traceback. The log contains the full traceback."""
    lines = traceback.splitlines()
    if not lines:
        return "it reported no reason"
    return lines[0] if lines[0].startswith("Fatal Python error") else lines[-1]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
