# SPDX-License-Identifier: Apache-2.0
"""A child process that handles requests, and is replaced if it dies or hangs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Serve = Callable[..., Callable[[Any], Any]]

# A child also counts as hung if the wall-clock time of a request exceeds its CPU limit by this
# factor, because a blocked child uses no CPU time.
_STUCK = 5


class Died(Exception):
    """The child exited before it responded. The message contains its exit status."""


class Hung(Exception):
    """The child exceeded its time limit and was killed."""


class Child:
    """A child process, started by the first request and stopped at the end of the context."""

    def __init__(self, serve: Serve, *args: Any, seconds: float, most: int = 1000) -> None:
        """`serve(*args)` runs in the child and returns the function that handles requests.

        `seconds` limits the CPU time of a request rather than its wall-clock time, which depends on
        the load of the machine. A child is replaced after `most` requests, to limit its memory.
        """
        self._serve = serve
        self._args = args
        self.seconds = seconds
        self._most = most
        self._answers = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(self, question: Any) -> Any:
        """Send a request to the child, and return its response.

        Raises Died if the child dies, or Hung if it hangs; the next request then starts a new
        child. Raises a RuntimeError with the child's traceback if handling the request raises an
        error.
        """
        if self._answers >= self._most:
            self.stop()
        connection = self._started()
        try:
            connection.send(question)
            answer = self._received(connection)
        except (EOFError, ConnectionError):
            raise Died(_status(self.stop())) from None
        self._answers += 1
        if isinstance(answer, _Error):
            raise RuntimeError(f"aot: {question}: {answer.traceback}")
        return answer

    def stop(self) -> int | None:
        """Stop the child and return its exit status, or None if there is no child."""
        process, connection = self._process, self._connection
        if process is None or connection is None:
            return None
        connection.close()
        process.join(1)
        if process.is_alive():
            process.kill()
            process.join()
        self._process = self._connection = None
        self._answers = 0
        return process.exitcode

    def _received(self, connection: Connection) -> Any:
        assert self._process is not None
        pid = self._process.pid
        began, used = time.monotonic(), _cpu_seconds(pid)
        while not connection.poll(1):
            if _cpu_seconds(pid) - used > self.seconds:
                self.stop()
                raise Hung(f"more than {self.seconds:g} s of CPU time")
            if time.monotonic() - began > _STUCK * self.seconds:
                self.stop()
                raise Hung(f"no answer after {_STUCK * self.seconds:g} s")
        return connection.recv()

    def _started(self) -> Connection:
        if self._connection is None:
            # Use spawn, because forking is unsafe once this process has loaded libtpu or used a
            # device.
            context = multiprocessing.get_context("spawn")
            self._connection, child_end = context.Pipe()
            self._process = context.Process(
                target=_run, args=(child_end, self._serve, self._args), daemon=True
            )
            self._process.start()
            child_end.close()
            try:
                self._received(self._connection)
            except EOFError:
                raise RuntimeError(
                    f"aot: the child process {_status(self.stop())} at its start; its output is "
                    "above"
                ) from None
        return self._connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _run(connection: Connection, serve: Serve, args: tuple[Any, ...]) -> None:
    answer = serve(*args)
    connection.send("ready")
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        try:
            reply = answer(question)
        except Exception:  # noqa: BLE001 - the parent raises it
            reply = _Error(traceback.format_exc())
        with suppress(BrokenPipeError):  # A broken pipe means that the parent was killed.
            connection.send(reply)


@dataclass(frozen=True)
class _Error:
    traceback: str


def _status(code: int | None) -> str:
    if code is not None and code < 0:
        return f"ended with {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _cpu_seconds(pid: int | None) -> float:
    """Return the CPU time that all threads of a process have used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
