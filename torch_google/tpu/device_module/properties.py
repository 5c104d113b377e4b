# SPDX-License-Identifier: Apache-2.0
"""What a device is: as PJRT tells it, and None where it does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    """`name` is the kind of device in PJRT's words, `total_memory` its bytes.

    `process_index`, `coords` and `core_on_chip` say where it is among the devices of all hosts.
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


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Return what is known of a device; starts the platform."""
    torch.tpu.init()
    index = checked_index(device)
    found = platform.device(index)
    try:
        total: int | None = mem_get_info(index)[1]
    except NotImplementedError:
        total = None
    coords = getattr(found, "coords", None)
    return DeviceProperties(
        name=str(found.device_kind),
        platform=str(found.platform),
        platform_version=str(found.client.platform_version),
        total_memory=total,
        id=int(found.id),
        local_hardware_id=found.local_hardware_id,
        process_index=int(found.process_index),
        coords=None if coords is None else tuple(coords),
        core_on_chip=getattr(found, "core_on_chip", None),
        slice_index=getattr(found, "slice_index", None),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Return the kind of a device, in PJRT's words."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """Return the properties of a device as a dict; there is no number that stands for them."""
    return asdict(get_device_properties(device))


def get_arch_list() -> list[str]:
    """Return no architectures: programs are compiled where they run."""
    return []


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether values go from one device to another without the host: PJRT sees to it."""
    torch.tpu.init()
    return checked_index(device) != checked_index(peer_device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works: everywhere, in hardware on all but CPUs."""
    torch.tpu.init()
    return including_emulation or platform.name() != "cpu"
