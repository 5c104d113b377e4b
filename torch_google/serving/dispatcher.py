# SPDX-License-Identifier: Apache-2.0
"""Queue requests, up to a limit, and distribute them to workers, in the event loop's thread."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from litserve import LitAPI

from torch_google.serving import worker
from torch_google.serving.errors import RequestError
from torch_google.serving.limits import Limits
from torch_google.serving.metrics import Metrics
from torch_google.serving.signature import Signature
from torch_google.serving.worker_handle import WorkerHandle

_LOG = logging.getLogger(__name__)
_LONGEST_RETRY_AFTER = 60  # seconds
_POLL_SECONDS = 0.02
_KILL_SECONDS = 2.0  # seconds that the kernel may need to terminate a killed worker


@dataclasses.dataclass
class _Waiting:
    payload: Any
    since: float
    reply: asyncio.Future[worker.Reply]


class Dispatcher:
    """A queue of requests that passes batches to idle workers.

    All methods must be called in the event loop's thread. If a worker cannot start, `on_failure` is
    called with a one-line message.
    """

    def __init__(self, limits: Limits, metrics: Metrics, on_failure: Callable[[str], None]) -> None:
        self.signature: Signature | None = None
        self._limits = limits
        self._metrics = metrics
        self._on_failure = on_failure
        self._handles: list[WorkerHandle] = []
        self._pids: dict[WorkerHandle, int] = {}
        self._idle: list[WorkerHandle] = []
        self._in_work: dict[WorkerHandle, list[_Waiting]] = {}
        self._queue: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        metrics.queue_limit.set(limits.queue)

    def start(self, api: LitAPI, device: str, workers: int) -> None:
        """Start the workers."""
        self._handles = [WorkerHandle(index, api, device, self) for index in range(workers)]
        for handle in self._handles:
            self._metrics.ready.set(0, str(handle.index))
            self._metrics.restarts.set(0, str(handle.index))

    async def stop(self, patience: float) -> None:
        """Stop the workers, and wait until their processes have exited.

        Processes that have not exited after `patience` seconds are killed.
        """
        end = time.monotonic() + patience
        for handle in self._handles:
            handle.stop(patience)
        # Poll the handles' threads. Joining them in an executor would delay the interpreter's exit,
        # because the interpreter waits for the executor's threads.
        while running := [handle for handle in self._handles if not handle.join(0)]:
            await asyncio.sleep(_POLL_SECONDS)
            if time.monotonic() >= end:
                for handle in running:
                    handle.kill()

    def abandon(self) -> None:
        """Kill the workers that are still running after `stop`."""
        for handle in self._handles:
            handle.stop(0)
            handle.kill()
        for handle in self._handles:
            handle.join(_KILL_SECONDS)

    def describe(self) -> str:
        """Return a description, for operators, of unfinished requests and running workers."""
        waiting, working = len(self._queue), sum(map(len, list(self._in_work.values())))
        workers = [handle.describe() for handle in self._handles if not handle.join(0)]
        return ", ".join([f"{waiting} requests wait", f"{working} are in work", *workers])

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker is ready."""
        return bool(self._pids)

    async def submit(self, payload: Any) -> worker.Reply:
        """Queue a request and return the reply.

        Raises RequestError if no worker is ready, the queue is full, the worker dies, or the reply
        takes too long.
        """
        if not self.is_ready:
            raise self._unavailable("no worker is ready", "the model is loading", 1)
        if len(self._queue) >= self._limits.queue:
            found = f"{len(self._queue)} requests wait"
            raise self._unavailable("the queue is full", found, self._seconds_of_queue())
        reply = asyncio.get_running_loop().create_future()
        waiting = _Waiting(payload, time.monotonic(), reply)
        self._queue.append(waiting)
        self._schedule()
        try:
            return await asyncio.wait_for(reply, self._limits.timeout)
        except TimeoutError:
            raise RequestError(
                HTTPStatus.GATEWAY_TIMEOUT,
                "the request took too long",
                "the server",
                f"no result after {self._limits.timeout:g} s",
                "try again when there is less load, or start the server with a longer timeout",
            ) from None
        finally:
            if not reply.done() or reply.cancelled():
                self._forget(waiting)

    def update_gauges(self) -> None:
        """Set the gauges for queue length, requests in progress and memory use."""
        self._metrics.queue_length.set(len(self._queue))
        self._metrics.in_work.set(sum(map(len, self._in_work.values())))
        for handle, pid in self._pids.items():
            self._metrics.resident.set(resident_bytes(pid), str(handle.index))

    def on_ready(self, handle: WorkerHandle, ready: worker.Ready) -> None:
        """Start passing batches to a worker that has loaded its model."""
        _LOG.info("worker %d is ready: process %d", handle.index, ready.pid)
        self.signature = ready.signature
        self._pids[handle] = ready.pid
        self._metrics.ready.set(1, str(handle.index))
        self._idle.append(handle)
        self._schedule()

    def on_done(self, handle: WorkerHandle, done: worker.Done) -> None:
        """Pass a batch's replies to the requests that wait for them."""
        self._metrics.batch_seconds.observe(done.seconds)
        for waiting, reply in zip(self._in_work.pop(handle), done.replies, strict=True):
            if not waiting.reply.done():
                waiting.reply.set_result(reply)
        self._idle.append(handle)
        self._schedule()

    def on_lost(self, handle: WorkerHandle, exit_code: int | None) -> None:
        """Fail the requests that a worker was processing when it died."""
        _LOG.error("worker %d died: exit code %s; restarting it", handle.index, exit_code)
        self._metrics.restarts.add(1, str(handle.index))
        self._remove(handle, f"exit code {exit_code}")

    def on_failed(self, handle: WorkerHandle, message: str) -> None:
        """Report that a worker cannot start. This stops the server."""
        self._remove(handle, message)
        self._on_failure(f"worker {handle.index}: {message}")

    def _remove(self, handle: WorkerHandle, found: str) -> None:
        self._pids.pop(handle, None)
        self._metrics.ready.set(0, str(handle.index))
        self._metrics.resident.set(0, str(handle.index))
        if handle in self._idle:
            self._idle.remove(handle)
        for waiting in self._in_work.pop(handle, ()):
            if not waiting.reply.done():
                waiting.reply.set_exception(
                    RequestError(
                        HTTPStatus.INTERNAL_SERVER_ERROR,
                        "the worker that had the request died",
                        f"worker {handle.index}",
                        found,
                        "do not repeat the request if it always has this effect",
                    )
                )

    def _schedule(self) -> None:
        """Pass batches to idle workers. Wait up to `batch_wait` for each batch to fill up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle and self._queue:
            now = time.monotonic()
            rest = self._limits.batch_wait - (now - self._queue[0].since)
            if rest > 0 and len(self._queue) < self._limits.batch:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(rest, self._schedule)
                return
            size = min(len(self._queue), self._limits.batch)
            batch = [self._queue.popleft() for _ in range(size)]
            for waiting in batch:
                self._metrics.queue_seconds.observe(now - waiting.since)
            self._metrics.batch_size.observe(size)
            handle = self._idle.pop(0)
            self._in_work[handle] = batch
            handle.send([waiting.payload for waiting in batch])

    def _forget(self, waiting: _Waiting) -> None:
        """Remove an abandoned request from the queue, unless a worker has already received it."""
        for index, each in enumerate(self._queue):
            if each is waiting:
                del self._queue[index]
                return

    def _seconds_of_queue(self) -> int:
        """Estimate how many seconds the queued requests will take, based on past batches."""
        batches = self._metrics.batch_seconds
        if not batches.count:
            return 1
        rate = len(self._pids) * self._metrics.batch_size.sum / max(batches.sum, 1e-6)
        return min(max(1, math.ceil(len(self._queue) / max(rate, 1e-6))), _LONGEST_RETRY_AFTER)

    def _unavailable(self, what: str, found: str, retry_after: int) -> RequestError:
        return RequestError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            what,
            "the server",
            found,
            f"try again in {retry_after} s",
            retry_after,
        )


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if the process has exited."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
