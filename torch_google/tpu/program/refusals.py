# SPDX-License-Identifier: Apache-2.0
"""Calls that the CPU rejects but torch's meta kernels accept or reject differently.

An operator's first use on the device has a trial run on the CPU (`probe.py`). Elementwise operators
use one-element stand-ins. If a result is written in another dtype, zeros with the actual sizes are
used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.program import probe
from torch_google.tpu.program.number import Number
from torch_google.tpu.program.probe import REFUSALS, Refusal, StandIn

__all__ = [
    "REFUSALS",
    "Refusal",
    "check",
    "check_written",
    "looks_at_values",
    "raise_cpu_error",
]


def check(op: OpOverload, args: list[Any]) -> None:
    """Raise Refusal with the CPU's error for these dtypes and other arguments.

    Raises nothing if the CPU lacks the operator.
    """
    stand_in = _stand_in(op)
    if stand_in is None:
        probe.check(op, args)
        return
    if op._schema.name == "aten::full":
        if any(size < 0 for size in args[0]):
            return  # another check rejects it by name
        args = [[min(size, 2) for size in args[0]], *args[1:]]
    original = args
    if op._schema.name in _PUTS:
        args = [args[0], _places(args[1], args[2]), *args[2:]]
    elif not looks_at_values(op, args):
        # If the tensors' dtypes can hold a number, the CPU checks at most the number's type.
        args = [
            type(value)(1) if _stands_for_a_tensor(argument, value) else value
            for argument, value in zip(
                op._schema.arguments, pytree.tree_map(_without_value, args), strict=True
            )
        ]
    try:
        probe.run(op, args, stand_in)
    except Refusal:
        raise_cpu_error(op, original)  # raises the error with the actual sizes
        raise


def looks_at_values(op: OpOverload, args: Sequence[Any]) -> bool:
    """Return whether the CPU may reject a number, a program input, because of its value."""
    return op._schema.name in _OF_PARAMETERS or op._schema.name in _FILLING or _misfits(args)


def _misfits(args: Sequence[Any]) -> bool:
    """Return whether a tensor's dtype cannot represent a number, such as 300 in int8."""
    leaves = pytree.tree_leaves(list(args))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    numbers = [leaf.value for leaf in leaves if isinstance(leaf, Number)]
    numbers += [
        leaf.item()
        for leaf in tensors
        if leaf.device.type == "cpu" and leaf.dim() == 0 and not leaf.is_complex()
    ]
    dtypes = {leaf.dtype for leaf in tensors if leaf.device.type != "cpu"} if numbers else set()
    return any(_lacks(dtype, number) for dtype in dtypes for number in numbers)


def _lacks(dtype: torch.dtype, number: float) -> bool:
    if dtype == torch.bool or not math.isfinite(number):
        return False
    if dtype.is_floating_point or dtype.is_complex:
        return abs(number) > torch.finfo(dtype).max
    return not torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max


def check_written(
    op: OpOverload, args: list[Any], written: Sequence[tuple[torch.Tensor, torch.dtype]]
) -> None:
    """Raise Refusal if a written tensor cannot receive a result with another dtype.

    `written`: the written tensors with their results' dtypes.
    """
    others = {id(tensor): dtype for tensor, dtype in written if tensor.dtype != dtype}
    if not others:
        return

    def as_computed(leaf: torch.Tensor) -> torch.Tensor:
        return _zeros(leaf).to(others.get(id(leaf), leaf.dtype))

    try:
        raise_cpu_error(op, args)
    except Refusal as refusal:
        try:
            probe.run(op, args, as_computed, sized=True)
        except Refusal as other:
            if str(other) == str(refusal):
                return  # the CPU rejects zeros for their values, whatever the dtype
        raise


def raise_cpu_error(op: OpOverload, args: list[Any]) -> None:
    """Run an operator on zeros on the CPU. Raises Refusal with the CPU's error."""
    probe.run(op, args, _zeros, sized=True)


def _zeros(leaf: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).zero_()


def _a_one(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones([min(size, 1) for size in leaf.shape], dtype=leaf.dtype)


def _two(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones([min(size, 2) for size in leaf.shape], dtype=leaf.dtype)


def _a_place(leaf: torch.Tensor) -> torch.Tensor:
    """Return the first index, as an index or a mask."""
    one = _a_one(leaf)
    return one if leaf.dtype == torch.bool else one.zero_()


def _put(leaf: torch.Tensor) -> torch.Tensor:
    """Return a value to store or an index; a mask may select one element or none."""
    return _a_place(leaf.new_empty([1] * leaf.ndim))


def _without_value(leaf: Any) -> Any:
    return Number(type(leaf.value)(1)) if isinstance(leaf, Number) else leaf


def _stands_for_a_tensor(argument: torch.Argument, value: Any) -> bool:
    return str(argument.type) == "Tensor" and type(value) in (int, float)


def _places(indices: list[torch.Tensor | None], values: torch.Tensor) -> list[Any]:
    """Replace masks with indices, because a mask with a single value calls other kernels."""
    if values.numel() == 1:
        return indices
    places: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            places += [torch.zeros(1, dtype=torch.int64)] * index.ndim
        else:
            places.append(index)
    return places


def _a_row(leaf: torch.Tensor) -> torch.Tensor:
    return _a_one(leaf).expand(*[min(size, 1) for size in leaf.shape[:-1]], *leaf.shape[-1:])


def _named(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


# Elementwise operators that torch does not tag as such. All accept arguments of ones.
_OF_ONES = _named(
    "aminmax binary_cross_entropy bucketize complex dist floor_divide floor_divide_ huber_loss isin masked_fill masked_fill_ "
    "masked_scatter masked_scatter_ mse_loss polar rsub smooth_l1_loss soft_margin_loss"
)
# Distributions, whose parameters' values are checked.
_OF_PARAMETERS = _named(
    "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ native_dropout normal_ random_ "
    "uniform uniform_"
)
# Operators that write a number, which the dtype must be able to represent.
_FILLING = _named("fill fill_ full index_fill index_fill_ masked_fill masked_fill_")
_PUTS = _named("_index_put_impl_ index_put index_put_")
# Operators that accept index 0.
_OF_PLACES = _named(
    "gather index_add index_add_ index_copy index_copy_ index_fill index_fill_ "
    "index_reduce index_reduce_ put put_ scatter scatter_ scatter_add "
    "scatter_add_ scatter_reduce scatter_reduce_"
)
_OF_OTHERS: dict[str, StandIn] = {
    "aten::_histogramdd_bin_edges": _a_row,
    "aten::as_strided_scatter": _zeros,
    "aten::multinomial": _a_row,
}


def _stand_in(op: OpOverload) -> StandIn | None:
    name = op._schema.name
    each = torch.Tag.pointwise in op.tags or name.startswith("aten::_foreach_")
    if name in _PUTS:
        return _put
    if name in _OF_PLACES:
        return _a_place
    if name in _FILLING:
        return _two  # for one element, the CPU uses another kernel, which rejects nothing
    return _a_one if each or name in _OF_ONES or name in _OF_PARAMETERS else _OF_OTHERS.get(name)
