# SPDX-License-Identifier: Apache-2.0
"""Replacements for the torch.accelerator functions and stream contexts that torch v2.6 lacks."""

from __future__ import annotations

from typing import Any

import torch

from torch_google.tpu import _C
from torch_google.tpu.release import V2_6


class _Memory:
    """The memory functions of torch.accelerator, which torch v2.6 lacks."""

    def memory_stats(self, index: int | None = None) -> dict[str, Any]:
        if not _C.started():
            return {}
        return dict(_C.memory_stats(_C.current_device() if index is None else index))

    def memory_allocated(self, index: int | None = None) -> int:
        return int(self.memory_stats(index).get("allocated_bytes.all.current", 0))

    def max_memory_allocated(self, index: int | None = None) -> int:
        return int(self.memory_stats(index).get("allocated_bytes.all.peak", 0))

    def reset_peak_memory_stats(self, index: int) -> None:
        if _C.started():
            _C.reset_peak_memory_stats(index)

    def reset_accumulated_memory_stats(self, index: int) -> None:
        if _C.started():
            _C.reset_accumulated_memory_stats(index)


class StreamContext:
    """A context that makes a stream and its device current in this thread; a no-op for None."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self._stream = stream
        self._before: list[tuple[int, torch.Stream]] = []

    def __enter__(self) -> torch.Stream | None:
        if self._stream is not None:
            before = torch.accelerator.current_stream(self._stream.device.index)
            self._before.append((_C.current_device(), before))
            torch.accelerator.set_stream(self._stream)
        return self._stream

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            device, stream = self._before.pop()
            torch.accelerator.set_stream(stream)
            torch.accelerator.set_device_index(device)


class _Stream(torch.Stream):
    """A stream that can be used as a context manager."""

    _contexts: list[StreamContext]

    def __enter__(self) -> Any:
        context = StreamContext(self)
        self._contexts = [*getattr(self, "_contexts", ()), context]
        return context.__enter__()

    def __exit__(self, *_: object) -> None:
        self._contexts.pop().__exit__()


accelerator: Any = _Memory() if V2_6 else torch.accelerator

# In torch releases after v2.6, torch.Stream is itself a context manager.
StreamBase: Any = _Stream if V2_6 else torch.Stream


def stream_context(stream: torch.Stream | None) -> Any:
    """Return a context that makes a stream current in this thread, or a no-op context for None."""
    return StreamContext(stream) if V2_6 or stream is None else stream


def check_stream_device(index: int) -> None:
    """Raise ValueError for a nonexistent device. torch v2.6 aborts on a request for its stream."""
    if not V2_6 or 0 <= index < _C.device_count():
        return
    _C.start()
    if not 0 <= index < _C.device_count():
        raise ValueError(f"tpu: no device tpu:{index}; this process has {_C.device_count()}")


def synchronize_device(index: int) -> None:
    """Wait until a device has finished its work. PJRT must have been initialized."""
    if V2_6:
        # In torch v2.6, synchronize() does nothing until torch notices that the device has been
        # initialized. This call makes torch notice.
        torch.accelerator.current_device_index()
    torch.accelerator.synchronize(index)
