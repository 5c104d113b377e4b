# SPDX-License-Identifier: Apache-2.0
"""`mark_sharding` and other functions that set, clear or query a tensor's sharding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import torch

from torch_google.tpu import _C, dtypes, shardings
from torch_google.tpu.lowerings import resharding as _  # noqa: F401 - defines the operators
from torch_google.tpu.runtime import arrays
from torch_google.tpu.runtime.dynamo_skip import untraced
from torch_google.tpu.runtime.strides import natural
from torch_google.tpu.spmd import partition_spec as specs
from torch_google.tpu.spmd.mesh import Mesh
from torch_google.tpu.spmd.partition_spec import Spec
from torch_google.tpu.spmd.sharded_tensor import XLAShardedTensor


@untraced
def mark_sharding(t: torch.Tensor, mesh: Mesh, partition_spec: Spec) -> XLAShardedTensor:
    """Distribute a tensor over the devices of a mesh, and return a view of its shards.

    `partition_spec` has an entry for each dimension: a mesh axis (its name or index), a tuple of
    axes, or None. The tensor object and its values stay the same. The sharding also applies to
    other views of the tensor's storage. In-place operators preserve it, and XLA chooses the
    sharding of the results of other operators.

    In torch.compile, this function causes a graph break; `mark_sharding_with_gradients` does not.

    Raises ValueError if the spec does not match the mesh or the tensor, if the tensor is not on
    tpu, or if it is a view that does not cover its storage.
    """
    if torch.compiler.is_compiling():
        torch._dynamo.graph_break()
    _check(t)
    with torch.no_grad(), torch._C.DisableTorchFunction():
        dimensions = specs.named(mesh, partition_spec, t.shape)
        shape, order = _whole(t, "mark_sharding")
        _reshard(t.detach(), shape, specs.sharding(mesh, dimensions, order))
    return XLAShardedTensor(t)


def mark_sharding_with_gradients(t: torch.Tensor, mesh: Mesh, partition_spec: Spec) -> torch.Tensor:
    """Return a tensor with the same values, sharded over a mesh together with its gradient.

    This function is meant for activations. It is an operator, so it works on any view and inside
    torch.compile. If `t` is not sharded, it is first copied to all devices, so use mark_sharding
    for large tensors. Raises ValueError in the same cases as mark_sharding.
    """
    text = _text(mesh, tuple(partition_spec), tuple(t.shape))
    return torch.ops.torch_google.shard(t, text)


def shard_like(t: torch.Tensor, other: torch.Tensor) -> None:
    """Shard a tensor like `other`, which must have the same shape and strides."""
    number = _C.sharding(other)
    if number == _C.sharding(t):
        return
    with torch.no_grad(), torch._C.DisableTorchFunction():
        if number == shardings.ONE_DEVICE:
            clear_sharding(t)
            return
        shape, _ = _whole(t, "shard_like")
        _reshard(t.detach(), shape, shardings.sharding_of(number))


def clear_sharding(t: torch.Tensor) -> torch.Tensor:
    """Gather a sharded tensor on its own device and return it. A no-op if it is not sharded."""
    t = t.global_tensor if isinstance(t, XLAShardedTensor) else t
    _check(t)
    if _C.sharding(t):
        array = arrays.on_one_device(_C.value(t), t.device.index)
        _C.reshard(t.detach(), array, array.shape, shardings.ONE_DEVICE)
    return t


def sharding_of(t: torch.Tensor) -> XLAShardedTensor | None:
    """Return a view of the tensor's shards, or None if it is not sharded."""
    return XLAShardedTensor(t) if is_sharded(t) else None


def is_sharded(t: torch.Tensor) -> bool:
    """Return whether a tensor is distributed over a mesh."""
    return t.device.type == "tpu" and t.layout == torch.strided and bool(_C.sharding(t))


def _reshard(t: torch.Tensor, shape: tuple[int, ...], sharding: jax.sharding.NamedSharding) -> None:
    number = shardings.number_of(sharding)
    natural_shape = _C.natural_shape(t)
    if natural_shape == shape and _C.sharding(t) == number:
        return
    if _C.is_blank(t):
        # The tensor's memory is not allocated before the first write, so there is nothing to copy.
        _C.reshard(t, None, shape, number)
        return
    if _C.sharding(t) and natural_shape == shape and _C.mode() == _C.Mode.fused:
        # Copy the values with an operator, which fused mode adds to its trace. Reading the array
        # would execute the trace.
        steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        with torch._C._AutoDispatchBelowAutograd():
            storage = t.as_strided(shape, steps, 0)
            torch.ops.torch_google.shard_(storage, shardings.text_of(number))
        return
    array = _C.value(t)
    if array.shape != shape:
        array = array.reshape(shape)
    _C.reshard(t, jax.device_put(array, sharding), shape, number)


@torch.compiler.assume_constant_result
def _text(mesh: Mesh, spec: Spec, shape: tuple[int, ...]) -> str:
    dimensions = specs.named(mesh, spec, shape)
    return shardings.text_of(
        shardings.number_of(specs.sharding(mesh, dimensions, range(len(shape))))
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.sharding = inputs[1]


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
    return torch.ops.torch_google.shard(gradient, ctx.sharding), None


torch.library.register_autograd("torch_google::shard", _backward, setup_context=_setup_context)


def _check(t: Any) -> None:
    if not isinstance(t, torch.Tensor):
        raise ValueError(f"spmd: expected a tensor of tpu, found {type(t).__name__}")
    if t.device.type != "tpu":
        raise ValueError(
            f"spmd: expected a tensor of tpu, found one of {t.device}. Move it with .to('tpu'), or "
            "load it with spmd.shard_batch"
        )
    if t.layout != torch.strided:
        raise ValueError(f"spmd: a tensor of layout {t.layout} cannot be sharded. Use .to_dense()")


def _whole(t: torch.Tensor, function: str) -> tuple[tuple[int, ...], Sequence[int]]:
    """Return the shape of a tensor's array, and the order of the tensor's dimensions in it.

    Raises ValueError if the tensor does not cover its storage.
    """
    layout = natural(tuple(t.shape), t.stride())
    covers = (
        t.storage_offset() == 0
        and layout.strides == t.stride()
        and t.numel() * t.itemsize == t.untyped_storage().nbytes()
        and not (t.is_conj() or t.is_neg())
        and dtypes.to_jax(_C.natural_dtype(t)) == dtypes.to_jax(t.dtype)
    )
    if not covers:
        raise ValueError(
            f"spmd.{function}: the tensor of shape {list(t.shape)} and strides {list(t.stride())} is "
            f"a view of a part of its storage ({t.untyped_storage().nbytes()} bytes, "
            f"{_C.natural_dtype(t)}). Mark the whole tensor, or a .clone() of the view"
        )
    return layout.shape, layout.order
