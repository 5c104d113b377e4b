# SPDX-License-Identifier: Apache-2.0
"""Records allocations with their stacks, in the format that torch's memory_viz reads."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from torch_google.tpu import _C
from torch_google.tpu.runtime import memory_owners, module_names
from torch_google.tpu.runtime.device_index import DeviceLike, index_of

_FRAMES = 60  # the maximum number of frames per stack, as in torch
_Frames = list[dict[str, Any]]


_annotations: list[dict[str, Any]] = []


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
) -> None:
    """Record the storages that are allocated and freed on all devices from now on.

    The arguments are those of the function with this name in torch.cuda.memory. `enabled="state"`
    keeps only live storages; None stops the recording and discards it. `context=None` records no
    stacks. Stacks contain only Python frames, even with `stacks="all"`. Each recorded allocation
    also includes the name of the module whose `forward` was running.
    """
    if enabled not in (None, "state", "all"):
        raise ValueError(f"tpu: _record_memory_history({enabled!r}); use None, 'state' or 'all'")
    if stacks not in ("python", "all"):
        raise ValueError(f"tpu: stacks={stacks!r}; use 'python' or 'all', which are the same")
    if max_entries < 1:
        raise ValueError(f"tpu: max_entries={max_entries}; use 1 or more")
    module_names.stop("memory history")
    _annotations.clear()
    if enabled is None:
        _C.start_memory_history(0, 0)
        return
    entries = 1 if enabled == "state" else min(max_entries, sys.maxsize)
    _C.start_memory_history(entries, 0 if context is None else _FRAMES)
    module_names.start("memory history")


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """Return the live storages and recorded events in torch.cuda.memory._snapshot's format.

    Each storage is represented by a segment with one block. A storage allocated before recording
    started has no frames, and is listed only if a Python object refers to its tensor.
    """
    traces: list[list[dict[str, Any]]] = [[] for _ in range(torch.tpu.device_count())]
    for allocates, index, address, size, microseconds, (label, frames) in _C.memory_events():
        traces[index].append(
            {
                "action": "alloc" if allocates else "free_completed",
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": microseconds,
                "compile_context": "N/A",
                "user_metadata": label,
                "frames": _frames(frames),
            }
        )
    return {
        "segments": [
            segment
            for segment in _segments()
            if device is None or segment["device"] == index_of(device)
        ],
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": list(_annotations),
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file for https://pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


@contextmanager
def annotate(name: str) -> Iterator[None]:
    """Mark the start and the end of a `with` block in the history, if one is being recorded."""
    _mark(name, "START")
    try:
        yield
    finally:
        _mark(name, "END")


def _mark(name: str, stage: str) -> None:
    if _C.is_memory_recorded():
        now = time.time_ns() // 1000
        _annotations.append({"name": name, "stage": stage, "time_us": now, "device": 0})


def _segments() -> Iterator[dict[str, Any]]:
    recorded = set()
    for _, index, address, size, _, (label, frames) in _C.recorded_storages():
        recorded.add(address)
        yield _segment(index, address, size, label, _frames(frames))
    for index, address, size in memory_owners.storages():
        if address not in recorded:
            yield _segment(index, address, size, "", [])


def _segment(index: int, address: int, size: int, label: str, frames: _Frames) -> dict[str, Any]:
    block = {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": "active_allocated",
        "user_metadata": label,
        "frames": frames,
    }
    return {
        "device": index,
        "address": address,
        "total_size": size,
        "allocated_size": size,
        "active_size": size,
        "requested_size": size,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": frames,
        "blocks": [block],
    }


def _frames(frames: list[tuple[str, str, int]]) -> _Frames:
    return [{"filename": file, "name": name, "line": line} for file, name, line in frames]
