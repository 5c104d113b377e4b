# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: A002 - the argument names follow torch's schemas
"""Functional collectives, lowered to custom calls.

The calls run in the thread of their process group (csrc/ffi_collective.cpp). Each call stores the
group's name as an attribute, and the group is looked up when the program runs. A program from the
compile cache therefore also works in another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from torch.distributed.distributed_c10d import _resolve_process_group

from torch_google.tpu.lowerings.call_order import current_order
from torch_google.tpu.lowerings.table import lowering

TARGET = "torch_google.tpu.collective"
"""The name under which the handler is registered with XLA."""

_TOKEN = ShapedArray((1,), np.dtype(np.uint8))

# Do not give the primitive a JAX effect, which would slow down each call and keep the program out
# of the compile cache. JAX keeps all calls because the program returns the last token. XLA keeps
# them because the custom call is marked as having a side effect.
_collective_p = Primitive("tpu_collective")
_collective_p.multiple_results = True


@_collective_p.def_abstract_eval
def _abstract(*operands: Any, shapes: Sequence[tuple[int, ...]], **_: Any) -> list[Any]:
    arrays = [ShapedArray(shape, each.dtype) for shape, each in zip(shapes, operands, strict=False)]
    return [*arrays, _TOKEN]


def _lower_on_cpu(ctx: Any, *operands: Any, shapes: Any, **attributes: Any) -> Any:
    values = {
        name: np.asarray(value, np.int64) if isinstance(value, tuple) else value
        for name, value in attributes.items()
    }
    values["root"] = np.int64(values["root"])
    return jax.ffi.ffi_lowering(TARGET, has_side_effect=True)(ctx, *operands, **values)


def _refuse(ctx: Any, *_: Any, collective: str, **__: Any) -> Any:
    platforms = ", ".join(ctx.module_context.platforms)
    raise NotImplementedError(
        f"tpu: torch.distributed: {collective} inside a program runs on the platform cpu, but not on "
        f"{platforms}. Call it outside of the program"
    )


mlir.register_lowering(_collective_p, _refuse)
mlir.register_lowering(_collective_p, _lower_on_cpu, platform="cpu")


def _call(
    collective: str,
    group: Any,
    inputs: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    *,
    reduction: str = "",
    root: int = -1,
    input_splits: Sequence[int] = (),
    output_splits: Sequence[int] = (),
) -> list[Any]:
    """Run a collective. The results have the given shapes and the dtypes of the inputs."""
    attributes = {
        "collective": collective,
        "group": _name(group),
        "reduction": reduction.lower(),
        "root": int(root),
        "input_splits": tuple(map(int, input_splits)),
        "output_splits": tuple(map(int, output_splits)),
        "shapes": tuple(shapes),
    }
    return current_order(collective).append(
        lambda token: _collective_p.bind(*inputs, token, **attributes)
    )


@lowering("_c10d_functional::all_reduce", "_c10d_functional::all_reduce_")
def all_reduce(input: Any, reduce_op: str, group_name: Any) -> Any:
    return _call("all_reduce", group_name, [input], [input.shape], reduction=reduce_op)[0]


@lowering("_c10d_functional::all_reduce_coalesced", "_c10d_functional::all_reduce_coalesced_")
def all_reduce_coalesced(inputs: Sequence[Any], reduce_op: str, group_name: Any) -> list[Any]:
    shapes = [each.shape for each in inputs]
    return _call("all_reduce_coalesced", group_name, inputs, shapes, reduction=reduce_op)


@lowering("_c10d_functional::all_gather_into_tensor")
def all_gather(input: Any, group_size: int, group_name: Any) -> Any:
    shapes = [_gathered(input, group_size)]
    return _call("all_gather_into_tensor", group_name, [input], shapes)[0]


@lowering("_c10d_functional::all_gather_into_tensor_out")
def all_gather_out(input: Any, group_size: int, group_name: Any, *, out: Any) -> Any:
    return _call("all_gather_into_tensor", group_name, [input], [out.shape])[0]


@lowering("_c10d_functional::all_gather_into_tensor_coalesced")
def all_gather_coalesced(inputs: Sequence[Any], group_size: int, group_name: Any) -> list[Any]:
    shapes = [_gathered(each, group_size) for each in inputs]
    return _call("all_gather_into_tensor_coalesced", group_name, inputs, shapes)


@lowering("_c10d_functional::reduce_scatter_tensor")
def reduce_scatter(input: Any, reduce_op: str, group_size: int, group_name: Any) -> Any:
    shapes = [_scattered(input, group_size)]
    return _call("reduce_scatter_tensor", group_name, [input], shapes, reduction=reduce_op)[0]


@lowering("_c10d_functional::reduce_scatter_tensor_out")
def reduce_scatter_out(
    input: Any, reduce_op: str, group_size: int, group_name: Any, *, out: Any
) -> Any:
    shapes = [out.shape]
    return _call("reduce_scatter_tensor", group_name, [input], shapes, reduction=reduce_op)[0]


@lowering("_c10d_functional::reduce_scatter_tensor_coalesced")
def reduce_scatter_coalesced(
    inputs: Sequence[Any], reduce_op: str, group_size: int, group_name: Any
) -> list[Any]:
    name = "reduce_scatter_tensor_coalesced"
    shapes = [_scattered(each, group_size) for each in inputs]
    return _call(name, group_name, inputs, shapes, reduction=reduce_op)


@lowering("_c10d_functional::all_to_all_single")
def all_to_all(
    input: Any,
    output_split_sizes: Sequence[int],
    input_split_sizes: Sequence[int],
    group_name: Any,
) -> Any:
    rows = sum(output_split_sizes) if output_split_sizes else input.shape[0]
    return _call(
        "all_to_all_single",
        group_name,
        [input],
        [(rows, *input.shape[1:])],
        input_splits=input_split_sizes,
        output_splits=output_split_sizes,
    )[0]


@lowering("_dtensor::shard_dim_alltoall")
def shard_dim_all_to_all(input: Any, gather_dim: int, shard_dim: int, group_name: Any) -> Any:
    size = _resolve_process_group(_name(group_name)).size()
    # Drop the remainder as torch's eager kernel does, because other ranks may run that kernel.
    length = input.shape[shard_dim] // size
    parts = [
        jax.lax.slice_in_dim(input, rank * length, (rank + 1) * length, axis=shard_dim)
        for rank in range(size)
    ]
    results = _call("all_to_all", group_name, parts, [part.shape for part in parts])
    return jnp.concatenate(results, axis=gather_dim)


@lowering("_c10d_functional::broadcast", "_c10d_functional::broadcast_")
def broadcast(input: Any, src: int, group_name: Any) -> Any:
    return _call("broadcast", group_name, [input], [input.shape], root=src)[0]


# A no-op, because XLA waits for a call's results before it uses them.
@lowering("_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd")
def wait_tensor(tensor: Any) -> Any:
    return tensor


def _name(group: Any) -> str:
    # torch passes the group instead of its name if it compiles for all ranks at once.
    return group if isinstance(group, str) else str(group.group_name)


def _gathered(array: Any, size: int) -> tuple[int, ...]:
    return (array.shape[0] * size, *array.shape[1:])


def _scattered(array: Any, size: int) -> tuple[int, ...]:
    return (array.shape[0] // size, *array.shape[1:])
