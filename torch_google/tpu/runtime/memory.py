# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu.memory`: the memory that live storages use, and the total memory of a device."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch

from torch_google.tpu import _C
from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.accelerator import accelerator
from torch_google.tpu.runtime.device_index import DeviceLike, checked_index, index_of
from torch_google.tpu.runtime.memory_history import (
    _dump_snapshot,
    _record_memory_history,
    _snapshot,
)

__all__ = [
    "_dump_snapshot",
    "_record_memory_history",
    "_snapshot",
    "empty_cache",
    "get_per_process_memory_fraction",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "viewer",
]


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return the allocator's statistics, under the names that torch uses."""
    return dict(accelerator.memory_stats(index_of(device)))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the total size in bytes of all live storages on a device."""
    return int(accelerator.memory_allocated(index_of(device)))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the highest value of memory_allocated since the last reset."""
    return int(accelerator.max_memory_allocated(index_of(device)))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset the peak, max_memory_allocated(), to the current value of memory_allocated()."""
    accelerator.reset_peak_memory_stats(index_of(device))


def empty_cache() -> None:
    """Do nothing, because unused memory is freed immediately."""


def ipc_collect() -> None:
    """Do nothing, because tensors are sent to other processes through host memory, not CUDA IPC."""


def memory_reserved(device: DeviceLike = None) -> int:
    """Return memory_allocated(), because no memory is cached."""
    return memory_allocated(device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return max_memory_allocated(), because no memory is cached."""
    return max_memory_allocated(device)


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Return the allocator's statistics as nested dicts, split at the dots in their names."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Reset the running totals of allocated and freed memory."""
    accelerator.reset_accumulated_memory_stats(index_of(device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limit the live tensors on a device to a fraction (0 to 1) of its memory. The default is 1.

    A call that would exceed the limit raises torch.OutOfMemoryError before it computes anything or
    draws a random number. For a torch.compile graph, the limit covers all memory that the graph
    needs while it runs. Raises ValueError for a fraction out of range, and NotImplementedError if
    the platform does not report its memory size.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"tpu: a fraction of {fraction} of the memory. Give 0 to 1")
    total = mem_get_info(device)[1]
    _C.set_memory_limit(index_of(device), math.floor(fraction * total))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Return the fraction of a device's memory that live tensors may use."""
    total = mem_get_info(device)[1]
    return min(1.0, float(_C.memory_limit(index_of(device)) / total))


def limit_all(devices: int) -> None:
    """Limit the live tensors on each device to the device's memory, if its size is known.

    This function is called when the device is initialized.
    """
    for index in range(devices):
        try:
            total = _info(index)[1]
        except NotImplementedError:
            continue
        _C.set_memory_limit(index, total)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and total memory of a device (of the host on the `cpu` platform) in bytes.

    Raises NotImplementedError if the platform does not report them, and ValueError for an index
    that is not a device.
    """
    torch.tpu.init()
    return _info(checked_index(device))


def _info(index: int) -> tuple[int, int]:
    if platform.name() == "cpu":
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page
    stats = platform.device(index).memory_stats() or {}
    if "bytes_limit" not in stats:
        raise NotImplementedError(
            f"tpu: the platform {platform.name()} does not say how much memory tpu:{index} has. "
            "memory_allocated has what live tensors hold"
        )
    return int(stats["bytes_limit"] - stats.get("bytes_in_use", 0)), int(stats["bytes_limit"])


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return a table of the memory in use and, unless `abbreviated` is set, PJRT's statistics."""
    torch.tpu.init()
    index = index_of(device)
    stats = memory_stats(index)
    rows: list[tuple[str, ...]] = [(f"tpu:{index}", "now", "peak", "allocated", "freed")]
    for title, name in (("bytes", "allocated_bytes"), ("storages", "allocation")):
        figures = (
            stats[f"{name}.all.{kind}"] for kind in ("current", "peak", "allocated", "freed")
        )
        rows.append((title, *(f"{figure:,}" for figure in figures)))
    if not abbreviated:
        pjrt = platform.device(index).memory_stats() or {}
        rows += [(f"pjrt {name}", f"{pjrt[name]:,}", "", "", "") for name in sorted(pjrt)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )


def viewer(path: str | os.PathLike[str], device: DeviceLike = None) -> None:
    """Write an HTML page about the peak memory and the live storages, by module and line of code.

    Call `_record_memory_history()` before the code of interest. Without a recording, the page shows
    only the storages that are live now. The file is replaced atomically.
    """
    from torch_google.tpu.runtime import memory_page  # imported here, because it is rarely used

    torch.tpu.init()
    index = checked_index(device)
    memory_page.write(Path(path), index, memory_allocated(index))
