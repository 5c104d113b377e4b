# SPDX-License-Identifier: Apache-2.0
"""Assigns an index to each sharding, so that C++ can store it and use it in keys.

A sharded tensor belongs to one tpu device, and its array is distributed over the devices of a mesh.
C++ stores the index of the sharding with each array. Index 0 means that the array is on one device.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

ONE_DEVICE = 0


def number_of(sharding: NamedSharding) -> int:
    """Return the index of a sharding, which is assigned on first use.

    Equivalent specs on the same mesh share an index.
    """
    key = NamedSharding(sharding.mesh, _canonical(sharding.spec))
    number = _numbers.get(key)
    if number is None:
        number = _numbers.setdefault(key, len(_numbers) + 1)
        _shardings.setdefault(number, key)
    return number


def sharding_of(number: int) -> NamedSharding:
    """Return the sharding with this index, which must not be ONE_DEVICE."""
    return _shardings[number]


def mesh_of(number: int) -> int:
    """Return the index of the sharding that replicates an array over the given sharding's mesh."""
    return number_of(NamedSharding(_shardings[number].mesh, PartitionSpec()))


def devices_of(number: int) -> tuple[jax.Device, ...]:
    """Return the devices of a sharding's mesh, in mesh order."""
    return tuple(_shardings[number].mesh.devices.flat)


def text_of(number: int) -> str:
    """Return a sharding as text that is the same in all processes with the same devices."""
    sharding = _shardings[number]
    mesh = sharding.mesh
    return json.dumps(
        [
            mesh.devices.flat[0].platform,
            [int(device.id) for device in mesh.devices.flat],
            list(mesh.devices.shape),
            list(mesh.axis_names),
            [list(part) if isinstance(part, tuple) else part for part in sharding.spec],
        ],
        separators=(",", ":"),
    )


def parse(text: Any) -> int:
    """Return the index of the sharding that a string from `text_of` describes.

    Raises ValueError, TypeError, KeyError or RuntimeError if the text is malformed, or if this
    process lacks one of the devices.
    """
    platform, ids, shape, names, spec = json.loads(text)
    by_id = {device.id: device for device in jax.devices(platform)}
    devices = np.empty(len(ids), object)
    devices[:] = [by_id[int(each)] for each in ids]
    mesh = Mesh(devices.reshape([int(size) for size in shape]), tuple(map(str, names)))
    parts = [tuple(map(str, part)) if isinstance(part, list) else part for part in spec]
    return number_of(NamedSharding(mesh, PartitionSpec(*parts)))


def result_numbers(executable: jax.stages.Compiled) -> list[int | None]:
    """Return the index of the sharding that XLA has chosen for each result of a program.

    The index is None if the result does not depend on an input, because XLA then chooses no
    sharding for it.
    """
    chosen = jax.tree.leaves(executable.output_shardings)
    return [number_of(each) if isinstance(each, NamedSharding) else None for each in chosen]


@dataclass(frozen=True)
class Placement:
    """The devices that run a program: one device, or all devices of a mesh.

    `mesh` is the index of the sharding that replicates an array over the mesh, or ONE_DEVICE.
    """

    device: jax.Device
    mesh: int = ONE_DEVICE

    @staticmethod
    def of(device: jax.Device, numbers: Sequence[int]) -> Placement:
        """Return the placement of a program whose inputs on `device` have these shardings.

        Raises MeshMismatch if the shardings' meshes have different devices.
        """
        sharded = [number for number in dict.fromkeys(numbers) if number != ONE_DEVICE]
        if not sharded:
            return Placement(device)
        first = devices_of(sharded[0])
        for other in sharded[1:]:
            if devices_of(other) != first:
                raise MeshMismatch(
                    "tpu: sharded tensors on different devices: "
                    f"{[d.id for d in first]} and {[d.id for d in devices_of(other)]}. "
                    "Mark both with meshes over the same devices, or clear_sharding() one"
                )
        return Placement(device, mesh_of(sharded[0]))

    @property
    def is_sharded(self) -> bool:
        """Return whether the program runs on a mesh."""
        return self.mesh != ONE_DEVICE

    @property
    def devices(self) -> tuple[jax.Device, ...]:
        """Return the program's devices."""
        return devices_of(self.mesh) if self.is_sharded else (self.device,)

    def sharding(self, number: int = ONE_DEVICE) -> jax.sharding.Sharding:
        """Return an input's JAX sharding. On a mesh, inputs that are not sharded are replicated."""
        if not self.is_sharded:
            return SingleDeviceSharding(self.device)
        return sharding_of(self.mesh if number == ONE_DEVICE else number)


class MeshMismatch(RuntimeError):
    """Raised if the tensors of a program are on meshes with different devices."""


def _canonical(spec: PartitionSpec) -> PartitionSpec:
    """Return an equivalent spec without one-element tuples and without trailing None entries."""
    parts = [part[0] if isinstance(part, tuple) and len(part) == 1 else part for part in spec]
    parts = [None if part == () else part for part in parts]
    while parts and parts[-1] is None:
        parts.pop()
    return PartitionSpec(*parts)


_numbers: dict[NamedSharding, int] = {}
_shardings: dict[int, NamedSharding] = {}
