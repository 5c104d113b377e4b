# SPDX-License-Identifier: Apache-2.0
"""Test WorkerHandle with workers that violate the protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torch_google.serving import worker
from torch_google.serving.limits import Limits
from torch_google.serving.testing import workers
from torch_google.serving.testing.small_server import SmallAPI
from torch_google.serving.worker_handle import WorkerHandle

_LARGE = b" " * (16 << 20)  # more than a socket buffers
_PATIENCE = 300.0


class _Owner:
    """An `Owner` that records the callbacks of a `WorkerHandle`."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    def on_ready(self, handle: WorkerHandle, ready: worker.Ready) -> None:
        self.calls.put_nowait(("ready", ready.pid))

    def on_done(self, handle: WorkerHandle, done: worker.Done) -> None:
        self.calls.put_nowait(("done", done))

    def on_lost(self, handle: WorkerHandle, exit_code: int | None) -> None:
        self.calls.put_nowait(("lost", exit_code))

    def on_failed(self, handle: WorkerHandle, message: str) -> None:
        self.calls.put_nowait(("failed", message))

    async def next(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self.calls.get(), _PATIENCE)


def _use(monkeypatch: pytest.MonkeyPatch, main: Callable[..., None]) -> None:
    monkeypatch.setattr(worker, "main", main)


def _start(owner: _Owner) -> WorkerHandle:
    return WorkerHandle(0, SmallAPI(max_batch_size=Limits().batch), "cpu", owner)


async def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize(
    ("main", "batch"), [(workers.stops, _LARGE), (workers.stops_within_a_message, b"")]
)
def test_kill_ends_a_handle_whose_worker_hangs(
    monkeypatch: pytest.MonkeyPatch, main: Callable[..., None], batch: bytes
) -> None:
    _use(monkeypatch, main)

    async def run() -> None:
        owner = _Owner()
        handle = _start(owner)
        try:
            kind, pid = await owner.next()
            assert kind == "ready"
            handle.send([batch])
            await _until(lambda: _is_stopped(pid) and "has a batch of 1" in handle.describe())
            handle.stop(0)
            assert not handle.join(0.5)
        finally:
            handle.kill()
        assert handle.join(_PATIENCE)

    asyncio.run(run())


def test_a_worker_that_ends_within_a_message_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, workers.ends_within_a_message)

    async def run() -> None:
        owner = _Owner()
        handle = _start(owner)
        try:
            assert (await owner.next())[0] == "ready"
            handle.send([0])
            assert await owner.next() == ("lost", 5)
        finally:
            handle.stop(0)
            handle.kill()
        assert handle.join(_PATIENCE)

    asyncio.run(run())


def test_a_message_that_cannot_be_read_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, workers.sends_nonsense)

    async def run() -> None:
        owner = _Owner()
        handle = _start(owner)
        assert (await owner.next())[0] == "ready"
        handle.send([0])
        kind, message = await owner.next()
        assert kind == "failed"
        assert "ValueError" in message
        assert handle.join(_PATIENCE)

    asyncio.run(run())


def test_a_process_that_cannot_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, lambda: None)  # a local function cannot be pickled

    async def run() -> None:
        owner = _Owner()
        handle = _start(owner)
        kind, message = await owner.next()
        assert kind == "failed"
        assert "pickle" in message
        assert handle.join(_PATIENCE)

    asyncio.run(run())
