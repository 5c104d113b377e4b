# SPDX-License-Identifier: Apache-2.0
"""The devices that a program runs on: one, or those of a mesh if a tensor is sharded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
from jax.sharding import SingleDeviceSharding

from torch_google.tpu.runtime import platform
from torch_google.tpu.shardings import ONE_DEVICE, devices_of, mesh_of, sharding_of


@dataclass(frozen=True)
class Placement:
    """Where a program runs: on tpu:`device`, or on the mesh of a replicated sharding."""

    device: int
    mesh: int = ONE_DEVICE

    @staticmethod
    def of(device: int, numbers: Sequence[int]) -> Placement:
        """Return the placement of a program for tensors with these shardings.

        Raises RuntimeError if they are on meshes with different devices.
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
        return devices_of(self.mesh) if self.is_sharded else (platform.device(self.device),)

    def sharding(self, number: int = ONE_DEVICE) -> jax.sharding.Sharding:
        """Return the sharding of an input. On a mesh, a tensor on one device is replicated."""
        if not self.is_sharded:
            return SingleDeviceSharding(platform.device(self.device))
        return sharding_of(self.mesh if number == ONE_DEVICE else number)


class MeshMismatch(RuntimeError):
    """Raised if the tensors of one operator are on meshes with different devices."""
