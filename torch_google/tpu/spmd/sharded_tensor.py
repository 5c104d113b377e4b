# SPDX-License-Identifier: Apache-2.0
"""`XLAShardedTensor`, a view of a tensor's shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from torch_google.tpu import _C, shardings
from torch_google.tpu.program import tensor_of
from torch_google.tpu.runtime.strides import natural

if TYPE_CHECKING:
    from types import EllipsisType

    import jax


@dataclass(frozen=True)
class XLAShard:
    """The shard of a tensor on one device.

    `data` is a CPU copy of the shard. `indices` is the shard's position in the tensor, or `...` if
    the tensor is replicated. `replica_id` distinguishes the devices that hold the same shard.
    """

    data: torch.Tensor
    indices: tuple[slice, ...] | EllipsisType
    shard_device: str
    replica_id: int


class XLAShardedTensor:
    """A view of a tensor's shards.

    `global_tensor` is the tensor itself. `partition_spec` lists the mesh axes that split each
    dimension, in the form that `mark_sharding` accepts.
    """

    def __init__(self, t: torch.Tensor) -> None:
        self.global_tensor = t

    @property
    def partition_spec(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """Return the mesh axes that split each dimension: all None if the tensor is not sharded."""
        tensor = self.global_tensor
        number = _C.sharding(tensor)
        if not number:
            return (None,) * tensor.dim()
        if tuple(_C.natural_shape(tensor)) != self._layout.shape:
            raise ValueError(
                f"spmd: the tensor of shape {list(tensor.shape)} is a view of a sharded storage of "
                f"shape {list(_C.natural_shape(tensor))}, so it has no partition_spec. "
                "Look at its base, or at a .clone()"
            )
        spec = [*shardings.sharding_of(number).spec]
        spec += [None] * (tensor.dim() - len(spec))
        by_dimension = dict(zip(self._layout.order, spec, strict=True))
        return tuple(by_dimension[dimension] for dimension in range(tensor.dim()))

    @property
    def mesh(self) -> jax.sharding.Mesh | None:
        """Return the tensor's mesh as a JAX mesh, or None if the tensor is not sharded."""
        number = _C.sharding(self.global_tensor)
        return shardings.sharding_of(number).mesh if number else None

    @property
    def sharding_spec(self) -> str:
        """Return the sharding in XLA's text format, or "" if the tensor is not sharded."""
        number = _C.sharding(self.global_tensor)
        if not number:
            return ""
        sharding = shardings.sharding_of(number)
        return str(sharding._to_xla_hlo_sharding(len(_C.natural_shape(self.global_tensor))))

    @property
    def replicas(self) -> int:
        """Return the number of devices that hold the same shard of the tensor."""
        array = _C.value(self.global_tensor)
        return len(array.sharding.device_set) // len(
            {str(shard.index) for shard in array.addressable_shards}
        )

    @property
    def bytes_per_device(self) -> int:
        """Return the storage's size per device in bytes, without computing the values."""
        tensor = self.global_tensor
        number = _C.sharding(tensor)
        size = int(tensor.untyped_storage().nbytes())
        if not number:
            return size
        shape = tuple(_C.natural_shape(tensor))
        part = shardings.sharding_of(number).shard_shape(shape)
        elements = 1
        for length in part:
            elements *= length
        return elements * int(_C.natural_dtype(tensor).itemsize)

    @property
    def local_shards(self) -> list[XLAShard]:
        """Return the shards on this process's devices, in mesh order."""
        self.partition_spec  # noqa: B018 - raises for a view
        array = _C.value(self.global_tensor)
        whole = array.is_fully_replicated
        order = [*self._layout.order]
        inverse = [order.index(dimension) for dimension in range(len(order))]
        return [
            XLAShard(
                tensor_of(shard.data).permute(inverse),
                ... if whole else tuple(shard.index[position] for position in inverse),
                f"tpu:{shard.device.id}",
                shard.replica_id,
            )
            for shard in array.addressable_shards
        ]

    @property
    def _layout(self) -> Any:
        return natural(tuple(self.global_tensor.shape), self.global_tensor.stride())

    def __repr__(self) -> str:
        spec = self.partition_spec if self.mesh is not None else "one device"
        return f"XLAShardedTensor({spec}, {self.global_tensor!r})"
