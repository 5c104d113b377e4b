# SPDX-License-Identifier: Apache-2.0
"""Converts users' device arguments (an index, a name or a torch.device) to device indices."""

from __future__ import annotations

from typing import TypeAlias

import torch

from torch_google.tpu import _C

DeviceLike: TypeAlias = torch.device | str | int | None


def current_index() -> int:
    """Return the index of this thread's current device."""
    if torch.compiler.is_dynamo_compiling():
        # Dynamo cannot trace C++. It replaces this call with its result, and guards on it.
        return torch.accelerator.current_device_index()
    return int(_C.current_device())


def index_of(device: DeviceLike) -> int:
    """Return the index of a device. None means the current device."""
    if device is None:
        return current_index()
    if isinstance(device, int):
        return device
    named = torch.device(device)
    if named.type != "tpu":
        raise ValueError(f"tpu: expected a device of type tpu, found '{named}'")
    return current_index() if named.index is None else named.index


def has_index(device: DeviceLike) -> bool:
    """Return whether a device argument contains an index.

    An argument without one means the current device.
    """
    if device is None or isinstance(device, int):
        return device is not None
    return torch.device(device).index is not None


def started_devices() -> int:
    """Initialize PJRT and return the number of devices."""
    _C.start()
    return int(_C.device_count())


def checked_index(device: DeviceLike) -> int:
    """Initialize PJRT and return a device's index. Raises ValueError for an unknown device."""
    index = index_of(device)
    count = started_devices()
    if not 0 <= index < count:
        raise ValueError(f"tpu: no device tpu:{index}; this process has {count}")
    return index
