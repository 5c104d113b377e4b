# SPDX-License-Identifier: Apache-2.0
"""Partition specs, which list the mesh axes that split each dimension of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from jax.sharding import NamedSharding, PartitionSpec

from torch_google.tpu.spmd.mesh import Mesh

# A mesh axis, given by its name or index.
Axis: TypeAlias = str | int
# One entry per dimension: an axis, several axes (the first varies slowest), or None for no split.
Spec: TypeAlias = Sequence[Axis | Sequence[Axis] | None]


def named(mesh: Mesh, partition_spec: Spec, shape: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the mesh axes that split each dimension of a tensor.

    Raises ValueError if the spec does not match the mesh or the shape.
    """
    if len(partition_spec) != len(shape):
        raise ValueError(
            f"spmd: the partition_spec {_text(partition_spec)} has {len(partition_spec)} entries, "
            f"but the tensor of shape {list(shape)} has {len(shape)} dimensions. Give one entry for "
            "each, None for no split"
        )
    dimensions = [_names(mesh, entry, partition_spec) for entry in partition_spec]
    used = [name for names in dimensions for name in names]
    for name in used:
        if used.count(name) > 1:
            raise ValueError(
                f"spmd: the mesh axis '{name}' occurs twice in {_text(partition_spec)}. An axis can "
                "split one dimension"
            )
    for dimension, (size, names) in enumerate(zip(shape, dimensions, strict=True)):
        parts = math.prod(mesh.axis_sizes[name] for name in names)
        if size % parts:
            raise ValueError(
                f"spmd: dimension {dimension} of {list(shape)} has size {size}, which is not "
                f"divisible by the {parts} devices of {_text(names)}. Pad it, or replicate it (None)"
            )
    return tuple(dimensions)


def sharding(
    mesh: Mesh, dimensions: Sequence[Sequence[str]], order: Sequence[int]
) -> NamedSharding:
    """Return the JAX sharding of an array that stores a tensor's dimensions in the given order."""
    parts = [tuple(dimensions[dimension]) or None for dimension in order]
    return NamedSharding(mesh.get_jax_mesh(), PartitionSpec(*parts))


def _names(mesh: Mesh, entry: Axis | Sequence[Axis] | None, spec: Spec) -> tuple[str, ...]:
    if entry is None:
        return ()
    axes = [entry] if isinstance(entry, str | int) else entry
    return tuple(_name(mesh, axis, spec) for axis in axes)


def _name(mesh: Mesh, axis: Axis, spec: Spec) -> str:
    if isinstance(axis, str) and axis in mesh.axis_names:
        return axis
    if isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(mesh.axis_names):
        return mesh.axis_names[axis]
    raise ValueError(
        f"spmd: no mesh axis {axis!r} in {_text(spec)}. The mesh has the axes "
        f"{', '.join(mesh.axis_names)}; name one, or give its index or None"
    )


def _text(spec: Spec) -> str:
    return str(tuple(tuple(part) if isinstance(part, list | tuple) else part for part in spec))
