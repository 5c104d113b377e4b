# SPDX-License-Identifier: Apache-2.0
"""A process that runs random programs, so that a crash or a hang does not stop the search."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection

Job = Callable[[int], Iterable[str]]
"""A function that takes a seed and returns the findings for it."""

_STACK_SECONDS = 10  # A hung worker has this long to print its stacks before it is killed.


class Worker:
    """A process that runs a job for one seed at a time. If the process dies, it is replaced.

    `prepare`, which must be picklable, creates the job in that process, so that the parent need not
    import torch.
    """

    def __init__(self, prepare: Callable[[], Job], *, seconds: float) -> None:
        """Set up the worker. A job that runs for more than `seconds` counts as a hang."""
        self._prepare = prepare
        self._seconds = seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def findings(self, seed: int) -> list[str]:
        """Run the job for a seed; return its findings, or a finding about its crash or hang."""
        connection = self._connection or self._start()
        try:
            connection.send(seed)
            if connection.poll(self._seconds):
                return connection.recv()
        except (EOFError, OSError):
            return [f"seed {seed}: {self._death()}\n"]
        return [f"seed {seed}: it does not end within {self._seconds:.0f} s\n{self._stop()}"]

    def close(self) -> None:
        """Terminate the process, if it is running."""
        if self._connection is not None:
            self._connection.close()
            self._join()

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, self._prepare), name="fuzz", daemon=True
        )
        self._process.start()
        other.close()
        return self._connection

    def _death(self) -> str:
        code = self._join()
        if code is not None and code < 0:
            return f"the process is ended by {signal.Signals(-code).name}"
        return f"the process exits with status {code}"

    def _stop(self) -> str:
        process = self._process
        if process is not None and process.pid is not None:
            os.kill(process.pid, signal.SIGABRT)
        self._join()
        return "Its stacks are on the standard error.\n"

    def _join(self) -> int | None:
        process, self._process, self._connection = self._process, None, None
        if process is None:
            return None
        process.join(_STACK_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode


def _serve(connection: Connection, prepare: Callable[[], Job]) -> None:
    faulthandler.enable()  # On SIGABRT, a hung process prints its stacks.
    job = prepare()
    with contextlib.suppress(EOFError):
        while True:
            connection.send(list(job(connection.recv())))
