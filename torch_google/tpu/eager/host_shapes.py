# SPDX-License-Identifier: Apache-2.0
"""Runs operators on concrete arrays if their result shapes depend on input values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import torch
from torch._ops import OpOverload

from torch_google.tpu import _C, dtypes, lowerings
from torch_google.tpu.program import Number
from torch_google.tpu.runtime import arrays, metrics, platform
from torch_google.tpu.runtime.strides import natural, read
from torch_google.tpu.runtime.transfer import from_array

if TYPE_CHECKING:
    from torch_google.tpu.eager.normalized_call import NormalizedCall
    from torch_google.tpu.program import LoweredProgram


def run(program: LoweredProgram, call: NormalizedCall) -> list[Any]:
    """Run the operator, and return one result for each return value in its schema."""
    metrics.host_shapes()
    device = call.tensors[0].device.index
    inputs = [_input_value(call, kind, index, device) for kind, index in call.sources()]
    outputs = program(inputs, None)
    # An operator without results is a value check. No error means that it has passed.
    if not call.op._schema.returns:
        return []
    args, kwargs = call.pure_arguments()
    shapes = [
        torch.empty(array.shape, dtype=dtypes.to_torch(array.dtype), device="meta")
        for array in outputs
    ]
    metas = lowerings.laid_out(call.pure.op.name(), shapes, args, kwargs)
    results = [_tensor(a, meta, device) for a, meta in zip(outputs, metas, strict=True)]
    if not call.pure.written:
        returns = call.op._schema.returns
        return [results] if len(returns) == 1 and "List" in str(returns[0].type) else results
    outs = []
    for index, result in zip(call.written(), results, strict=True):
        target = call.tensors[index]
        if target.dtype != result.dtype:
            raise RuntimeError(
                f"{call.op.name()}: out= is {target.dtype}, but the result is {result.dtype}. "
                "Pass an out= of that dtype"
            )
        if target.shape != result.shape:
            target.resize_(result.shape)
        outs.append(target.copy_(result))
    return outs


_PUTS = frozenset(
    {
        torch.ops.aten.index_put.default,
        torch.ops.aten.index_put_.default,
        torch.ops.aten._index_put_impl_.default,
        torch.ops.aten._unsafe_index_put.default,
    }
)


def has_mask(op: OpOverload, args: list[Any]) -> bool:
    """Return whether the indices contain masks that must be replaced with positions.

    A write through a single mask can be compiled. If there are other indices as well, the number of
    selected elements must be known first.
    """
    if op is not torch.ops.aten.index.Tensor and op not in _PUTS:
        return False
    indices = [index for index in args[1] if index is not None]
    masks = any(index.dtype in (torch.bool, torch.uint8) for index in indices)
    return masks and (op not in _PUTS or len(indices) > 1)


def by_positions(op: OpOverload, args: list[Any]) -> torch.Tensor:
    """Call an indexing operator after replacing each mask among its indices with positions."""
    return op(args[0], _positions(args[0], args[1]), *args[2:])


def _positions(
    tensor: torch.Tensor, indices: list[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    positions: list[torch.Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            dimensions = tensor.shape[len(positions) : len(positions) + index.dim()]
            if index.shape != dimensions:
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {len(positions)} does not "
                    f"match the shape of the indexed tensor {list(tensor.shape)}"
                )
            positions.extend(index.nonzero().unbind(1))
        else:
            positions.append(index)
    return positions


def _input_value(call: NormalizedCall, kind: str, index: int, device: int) -> Any:
    if kind == "tensor":
        value = _C.value(call.tensors[index])
        if len(value.sharding.device_set) > 1:
            value = arrays.on_one_device(value, device)
        return read(value, call.views[index])
    number = call.numbers[index] if kind == "number" else call.constants[index]
    return number.value if isinstance(number, Number) else arrays.from_host(number, device)


def _tensor(array: Any, meta: torch.Tensor, device: int) -> torch.Tensor:
    layout = natural(meta.shape, meta.stride())
    placed = jax.device_put(array.transpose(layout.order), platform.device(device))
    return from_array(placed, meta.dtype).as_strided(meta.shape, layout.strides)
