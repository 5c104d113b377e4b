# SPDX-License-Identifier: Apache-2.0
"""Start a worker process, pass batches to it, and restart it if it dies."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

from litserve import LitAPI

from torch_google.serving import worker

_LOG = logging.getLogger(__name__)
# Give up on a worker that dies this many times in a row without finishing a batch.
MOST_STARTS = 4
_FIRST_DELAY = 0.5  # s until a worker starts again, doubled each time
_END_TIMEOUT = 10.0  # s that a worker has to end after the connection is closed


class Owner(Protocol):
    """The callbacks of a `WorkerHandle`, always called in the event loop's thread."""

    def on_ready(self, handle: WorkerHandle, ready: worker.Ready) -> None: ...

    def on_done(self, handle: WorkerHandle, done: worker.Done) -> None: ...

    def on_lost(self, handle: WorkerHandle, exit_code: int | None) -> None:
        """Handle the death of the process. The handle restarts the process after a delay."""

    def on_failed(self, handle: WorkerHandle, message: str) -> None:
        """Handle a worker that failed to start or has died too often."""


class WorkerHandle:
    """A worker process, and the thread that talks to it.

    The thread may block on a stuck worker; the event loop must not.
    """

    def __init__(self, index: int, api: LitAPI, device: str, owner: Owner) -> None:
        self.index = index
        self._api = api
        self._device = device
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._batches: queue.SimpleQueue[Sequence[Any] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._stopped_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"worker-{index}", daemon=True)
        self._thread.start()

    def send(self, payloads: Sequence[Any]) -> None:
        """Pass a batch to the worker, which must be ready and idle."""
        self._batches.put(payloads)

    def stop(self) -> None:
        """Ask the process to end after its current batch, without waiting for it."""
        if not self._stopping.is_set():
            self._stopped_at = time.monotonic()
            self._stopping.set()
            self._batches.put(None)

    def join(self) -> None:
        """Wait until the process has ended. Call `stop` first."""
        self._thread.join()

    def _run(self) -> None:
        delay, starts = _FIRST_DELAY, 0
        while not self._stopping.is_set():
            finished, exit_code, failure = self._run_process()
            if self._stopping.is_set():
                return
            starts = 1 if finished else starts + 1
            delay = _FIRST_DELAY if finished else delay * 2
            if failure is not None:
                self._call(self._owner.on_failed, failure)
                return
            if starts >= MOST_STARTS:
                self._call(self._owner.on_failed, f"died {starts} times, last with {exit_code}")
                return
            self._call(self._owner.on_lost, exit_code)
            self._stopping.wait(delay)

    def _run_process(self) -> tuple[int, int | None, str | None]:
        """Run the process until it ends.

        Returns the number of finished batches, the exit code, and the error message if setup
        failed.
        """
        # A forked child would inherit locks held by other threads, and could not start a TPU.
        context = multiprocessing.get_context("spawn")
        connection, child_connection = context.Pipe()
        process = context.Process(
            target=worker.main,
            args=(child_connection, self._api, self._device),
            name=f"worker-{self.index}",
        )
        process.start()
        child_connection.close()
        finished, failure = 0, None
        try:
            started = self._receive(connection, patience=0)
            if isinstance(started, worker.Failed):
                failure = started.message
            elif isinstance(started, worker.Ready):
                self._call(self._owner.on_ready, started)
                while (payloads := self._batches.get()) is not None:
                    connection.send(payloads)
                    done = self._receive(connection, patience=_END_TIMEOUT)
                    if done is None:
                        break
                    self._call(self._owner.on_done, done)
                    finished += 1
        except (EOFError, ConnectionError):
            pass  # The process has ended; its exit code follows.
        finally:
            connection.close()
            process.join(1 if self._is_overdue(_END_TIMEOUT) else _END_TIMEOUT)
            if process.exitcode is None:
                _LOG.warning("worker %d did not end; killing it", self.index)
                process.kill()
                process.join()
        return finished, process.exitcode, failure

    def _receive(self, connection: Connection, *, patience: float) -> Any:
        """Return the next message, or None if `patience` seconds pass after `stop`."""
        while not connection.poll(0.1):
            if self._is_overdue(patience):
                return None
        return connection.recv()

    def _is_overdue(self, patience: float) -> bool:
        return self._stopping.is_set() and time.monotonic() - self._stopped_at >= patience

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, self, *arguments)
        except RuntimeError:  # The loop is closed: the server ends, and no request is left.
            _LOG.debug("worker %d: the event loop has ended", self.index)
