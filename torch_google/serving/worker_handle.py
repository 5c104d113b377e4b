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
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from litserve import LitAPI

from torch_google.multiprocessing import lifeline
from torch_google.serving import worker

_LOG = logging.getLogger(__name__)
# Give up on a worker that dies this many times in a row without finishing a batch.
MOST_STARTS = 4
_FIRST_DELAY = 0.5  # seconds until a worker is restarted, doubled each time
_END_TIMEOUT = 10.0  # seconds that a failed worker has to exit


class Owner(Protocol):
    """The callbacks of a `WorkerHandle`, always called in the event loop's thread."""

    def on_ready(self, handle: WorkerHandle, ready: worker.Ready) -> None: ...

    def on_done(self, handle: WorkerHandle, done: worker.Done) -> None: ...

    def on_lost(self, handle: WorkerHandle, exit_code: int | None) -> None:
        """Handle the death of the process, which the handle restarts after a delay."""

    def on_failed(self, handle: WorkerHandle, message: str) -> None:
        """Handle a worker that failed to start or has died too often."""


class WorkerHandle:
    """A worker process, and the thread that communicates with it.

    The thread may block on a stuck worker; the event loop must not. Whatever the thread waits for,
    it stops waiting when the process exits, so `kill` always stops the thread.
    """

    def __init__(self, index: int, api: LitAPI, device: str, owner: Owner) -> None:
        self.index = index
        self._api = api
        self._device = device
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._batches: queue.SimpleQueue[Sequence[Any] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._end = 0.0
        self._state = "starts"
        self._process: SpawnProcess | None = None
        self._killed: SpawnProcess | None = None
        self._thread = threading.Thread(target=self._run, name=f"worker-{index}", daemon=True)
        self._thread.start()

    def send(self, payloads: Sequence[Any]) -> None:
        """Pass a batch to the worker, which must be ready and idle."""
        self._batches.put(payloads)

    def stop(self, patience: float) -> None:
        """Request that the process exit, without waiting for it.

        The process has `patience` seconds to finish its batch. If it is still loading its model, it
        is killed.
        """
        if not self._stopping.is_set():
            self._end = time.monotonic() + patience
            self._stopping.set()
            self._batches.put(None)

    def kill(self) -> None:
        """Kill the process. The caller must call `stop` first, or the process restarts."""
        process = self._process
        if process is not None and process is not self._killed:
            self._killed = process
            _LOG.warning("%s and does not end; killing it", self.describe())
            process.kill()

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the process to exit. Return whether it has.

        The caller must call `stop` first.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def describe(self) -> str:
        """Return a description, for operators, of the worker's current state."""
        process = self._process
        pid = f" (process {process.pid})" if process is not None else ""
        return f"worker {self.index}{pid} {self._state}"

    def _run(self) -> None:
        try:
            self._run_processes()
        except Exception as error:  # noqa: BLE001 - without a report, requests would wait forever
            _LOG.exception("worker %d: the thread of the worker failed", self.index)
            self._call(self._owner.on_failed, f"{type(error).__name__}: {error}")

    def _run_processes(self) -> None:
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
        """Run the process until it exits.

        Return the number of finished batches, the exit code, and the error message if setup failed.
        """
        # A forked child would inherit locks held by other threads, and could not initialize a TPU.
        context = multiprocessing.get_context("spawn")
        connection, child_connection = context.Pipe()
        process = context.Process(
            target=worker.main,
            args=(child_connection, lifeline.line(), self._api, self._device),
            name=f"worker-{self.index}",
        )
        self._state = "starts"
        process.start()
        self._process = process
        child_connection.close()
        self._state = "loads its model"
        finished, failure = 0, None
        try:
            started = self._receive(connection, is_idle=True)
            if isinstance(started, worker.Failed):
                failure = started.message
            elif isinstance(started, worker.Ready):
                self._call(self._owner.on_ready, started)
                self._state = "is idle"
                while (payloads := self._batches.get()) is not None:
                    self._state = f"has a batch of {len(payloads)}"
                    connection.send(payloads)
                    done = self._receive(connection)
                    if done is None:
                        break
                    self._state = "is idle"
                    self._call(self._owner.on_done, done)
                    finished += 1
            else:  # The server is stopping, and cannot wait while the worker imports torch.
                self._killed = process
                process.kill()
        except (EOFError, OSError):
            pass  # The process has exited, perhaps while it was sending a message.
        finally:
            connection.close()
            self._reap(process)
        return finished, process.exitcode, failure

    def _reap(self, process: SpawnProcess) -> None:
        """Wait until the process has exited. Kill it if that takes too long."""
        rest = self._end - time.monotonic() if self._stopping.is_set() else _END_TIMEOUT
        process.join(max(0.1, rest))
        if process.exitcode is None:
            self.kill()
            process.join()
        self._process = None

    def _receive(self, connection: Connection, *, is_idle: bool = False) -> Any:
        """Return the next message, or None if `stop` was called and its `patience` has run out.

        If `is_idle`, return None as soon as `stop` is called.
        """
        while not connection.poll(0.1):
            if self._stopping.is_set() and (is_idle or time.monotonic() >= self._end):
                return None
        return connection.recv()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, self, *arguments)
        except RuntimeError:  # The loop is closed: the server has stopped, and no requests remain.
            _LOG.debug("worker %d: the event loop has ended", self.index)
