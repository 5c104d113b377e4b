# SPDX-License-Identifier: Apache-2.0
"""Records allocations with their stacks, in the format that torch's memory_viz reads."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from torch_google.tpu import _C
from torch_google.tpu.runtime import memory_owners
from torch_google.tpu.runtime.device_index import DeviceLike, index_of

_FRAMES = 60  # the maximum number of frames per stack, as in torch
_Frames = list[dict[str, Any]]


class _Modules(threading.local):
    """The modules whose `forward` is running in a thread, from the outermost to the innermost."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.labels: list[str] = []


_modules = _Modules()
_names: WeakKeyDictionary[torch.nn.Module, dict[int, str]] = WeakKeyDictionary()
_hooks: list[Any] = []
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

    The arguments are those of torch.cuda.memory. `enabled="state"` keeps only live storages; None
    stops the recording and discards it. `context=None` records no stacks. Stacks contain only
    Python frames, even with `stacks="all"`. Each recorded allocation also includes the name of the
    module whose `forward` was running.
    """
    if enabled not in (None, "state", "all"):
        raise ValueError(f"tpu: _record_memory_history({enabled!r}); use None, 'state' or 'all'")
    if stacks not in ("python", "all"):
        raise ValueError(f"tpu: stacks={stacks!r}; use 'python' or 'all', which are the same")
    if max_entries < 1:
        raise ValueError(f"tpu: max_entries={max_entries}; use 1 or more")
    for hook in _hooks:
        hook.remove()
    _hooks.clear()
    _annotations.clear()
    _names.clear()
    _modules.labels.clear()
    _C.set_memory_label("")
    if enabled is None:
        _C.start_memory_history(0, 0)
        return
    entries = 1 if enabled == "state" else min(max_entries, sys.maxsize)
    _C.start_memory_history(entries, 0 if context is None else _FRAMES)
    _hooks.append(register_module_forward_pre_hook(_enter))
    _hooks.append(register_module_forward_hook(_leave, always_call=True))


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """Return the live storages and the recorded events, as torch.cuda.memory._snapshot does.

    Each storage is a segment with one block. A storage allocated before the recording has no
    frames, and is listed only if a Python object refers to its tensor.
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


def _enter(module: torch.nn.Module, args: Any) -> None:
    if torch.compiler.is_compiling():
        return
    labels = _modules.labels
    if not labels:
        _modules.names = _names_in(module)
    # A module that is not a submodule of the outermost one is labeled with its class name.
    labels.append(_modules.names.get(id(module), type(module).__name__))
    _C.set_memory_label(labels[-1])


def _leave(module: torch.nn.Module, args: Any, output: Any) -> None:
    if torch.compiler.is_compiling():
        return
    labels = _modules.labels
    if labels:  # the recording may have started inside the module
        labels.pop()
    _C.set_memory_label(labels[-1] if labels else "")


def _names_in(root: torch.nn.Module) -> dict[int, str]:
    names = _names.get(root)
    if names is None:
        kind = type(root).__name__
        names = _names[root] = {
            id(module): f"{kind}.{name}" if name else kind for name, module in root.named_modules()
        }
    return names
