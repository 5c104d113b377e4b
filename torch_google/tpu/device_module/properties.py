# SPDX-License-Identifier: Apache-2.0
"""Device properties that PJRT reports. A property that PJRT does not report is None."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch

from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.device_index import DeviceLike, checked_index
from torch_google.tpu.runtime.memory import mem_get_info

__all__ = [
    "DeviceProperties",
    "can_device_access_peer",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_bf16_supported",
]


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a device.

    `name` is PJRT's name for this kind of device, and `total_memory` is in bytes. `process_index`,
    `coords` and `core_on_chip` identify the device among the devices of all hosts.
    """

    name: str
    platform: str
    platform_version: str
    total_memory: int | None
    id: int
    local_hardware_id: int | None
    process_index: int
    coords: tuple[int, ...] | None
    core_on_chip: int | None
    slice_index: int | None


_FIELDS = tuple(field.name for field in fields(DeviceProperties))


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Initialize the backend and return the properties of a device."""
    return DeviceProperties(*reported(checked_index(device)))


def reported(index: int) -> tuple[Any, ...]:
    """Return the values for the fields of DeviceProperties, in order. They never change.

    Dynamo calls this function while it traces, and uses the values as constants. Compiled code then
    creates a DeviceProperties from them.
    """
    jax_device = platform.device(index)
    try:
        total: int | None = mem_get_info(index)[1]
    except NotImplementedError:
        total = None
    coords = getattr(jax_device, "coords", None)
    properties = DeviceProperties(
        name=str(jax_device.device_kind),
        platform=str(jax_device.platform),
        platform_version=str(jax_device.client.platform_version),
        total_memory=total,
        id=int(jax_device.id),
        local_hardware_id=jax_device.local_hardware_id,
        process_index=int(jax_device.process_index),
        coords=None if coords is None else tuple(coords),
        core_on_chip=getattr(jax_device, "core_on_chip", None),
        slice_index=getattr(jax_device, "slice_index", None),
    )
    return tuple(vars(properties).values())


def get_device_name(device: DeviceLike = None) -> str:
    """Return PJRT's name for this kind of device."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """Return a device's properties as a dict, because tpu devices have no compute capability."""
    properties = get_device_properties(device)
    return {name: getattr(properties, name) for name in _FIELDS}


def get_arch_list() -> list[str]:
    """Return an empty list, because kernels are not built for fixed architectures."""
    return []


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return True for any two different devices, because PJRT can copy between them."""
    return checked_index(device) != checked_index(peer_device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether bfloat16 is supported. On the CPU, it is emulated."""
    torch.tpu.init()
    return including_emulation or platform.name() != "cpu"
