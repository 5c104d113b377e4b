# SPDX-License-Identifier: Apache-2.0
"""Compiled programs for one rank, and for all ranks of a group together.

A program for all ranks runs on distributed arrays; each rank holds one shard of every array.
Creating a distributed array from a local one, with JAX's public functions, takes about 10 us and
copies no data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from torch_google.tpu.collectives.flat_collectives import AXIS
from torch_google.tpu.runtime import compiler, platform

Function = Callable[..., list[jax.Array]]


class Programs:
    """A compiler for programs that run on a group with one device per rank.

    `devices` holds the devices in the order of the ranks. `index` is the index of this rank's tpu
    device.
    """

    def __init__(self, devices: Sequence[jax.Device], index: int) -> None:
        self.devices = tuple(devices)
        self.index = index
        self._over_ranks = NamedSharding(Mesh(np.array(self.devices), (AXIS,)), PartitionSpec(AXIS))

    def local(
        self, name: str, function: Callable[..., Any], key: object, like: Sequence[Any]
    ) -> Function:
        """Return a function compiled for this rank's device. Its arguments are shaped like `like`.

        The repr of `key` identifies the program across processes.
        """
        on = SingleDeviceSharding(platform.device(self.index))

        def lower() -> jax.stages.Lowered:
            shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=on) for each in like]
            return jax.jit(function).lower(*shapes)

        fingerprint = f"local part of {name}: {key!r}"
        return compiler.executable(name, lower, fingerprint=fingerprint, on=self.index)

    def over_ranks(
        self, name: str, function: Callable[..., Any], key: object, like: Sequence[Any]
    ) -> Function:
        """Return a function compiled for all ranks. Each rank passes arrays shaped like `like`.

        The function may use the axis `AXIS`. The arrays must have at least one dimension.
        """
        distributed = self._over_ranks
        shapes = [(len(self.devices) * each.shape[0], *each.shape[1:]) for each in like]

        def lower() -> jax.stages.Lowered:
            spec = distributed.spec
            mapped = jax.shard_map(
                function, mesh=distributed.mesh, in_specs=spec, out_specs=spec, check_vma=False
            )
            return jax.jit(mapped).lower(
                *(
                    jax.ShapeDtypeStruct(shape, each.dtype, sharding=distributed)
                    for shape, each in zip(shapes, like, strict=True)
                )
            )

        fingerprint = f"{name} over ranks: {key!r}"
        executable = compiler.executable(name, lower, fingerprint=fingerprint, on=self.devices)

        def run(*local: jax.Array) -> list[jax.Array]:
            whole = [
                jax.make_array_from_single_device_arrays(shape, distributed, [array])
                for shape, array in zip(shapes, local, strict=True)
            ]
            return [result.addressable_data(0) for result in executable(*whole)]

        return run
