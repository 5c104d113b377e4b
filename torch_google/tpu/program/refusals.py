# SPDX-License-Identifier: Apache-2.0
"""Checks for calls that the CPU rejects but torch's meta kernels accept or reject differently.

Before an operator first runs on the device, it has a trial run on the CPU (`probe.py`). This module
chooses the stand-ins for its tensors. Elementwise operators get stand-ins with one element. If a
result is written to a tensor of a different dtype, the stand-ins are zeros with the actual sizes.
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
    """Raise Refusal, with the CPU's error, if the CPU rejects a call because of its arguments.

    Do nothing if the CPU lacks the operator.
    """
    stand_in = _stand_in(op)
    if stand_in is None:
        probe.check(op, args)
        return
    if op._schema.name == "aten::full":
        if any(size < 0 for size in args[0]):
            return  # a later check raises an error that names the size
        args = [[min(size, 2) for size in args[0]], *args[1:]]
    original = args
    if op._schema.name in _PUTS:
        args = [args[0], _places(args[1], args[2]), *args[2:]]
    elif not looks_at_values(op, args):
        # The tensors' dtypes can represent all scalars, so the CPU may check the types of the
        # scalars, but not their values. Replace the scalars with ones.
        args = [
            type(value)(1) if _stands_for_a_tensor(argument, value) else value
            for argument, value in zip(
                op._schema.arguments, pytree.tree_map(_without_value, args), strict=True
            )
        ]
    try:
        probe.run(op, args, stand_in)
    except Refusal:
        raise_cpu_error(op, original)  # prefer the error for the actual sizes
        raise


def looks_at_values(op: OpOverload, args: Sequence[Any]) -> bool:
    """Return whether the CPU may reject a number because of its value, not only its type."""
    return op._schema.name in _OF_PARAMETERS or op._schema.name in _FILLING or _misfits(args)


def _misfits(args: Sequence[Any]) -> bool:
    """Return whether a tensor's dtype cannot represent a number, as int8 cannot represent 300."""
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
    """Raise Refusal if the CPU rejects writing a result to a tensor of a different dtype.

    `written` lists each destination tensor, with the dtype of the result computed for it.
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
                return  # the CPU rejects zeros of both dtypes, so the dtype is not the cause
        raise


def raise_cpu_error(op: OpOverload, args: list[Any]) -> None:
    """Run an operator on the CPU with all-zero inputs, and raise Refusal if the CPU rejects it."""
    probe.run(op, args, _zeros, sized=True)


def _zeros(leaf: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).zero_()


def _a_one(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones([min(size, 1) for size in leaf.shape], dtype=leaf.dtype)


def _two(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones([min(size, 2) for size in leaf.shape], dtype=leaf.dtype)


def _a_place(leaf: torch.Tensor) -> torch.Tensor:
    """Return a one-element tensor that selects the first element, as an index or as a mask."""
    one = _a_one(leaf)
    return one if leaf.dtype == torch.bool else one.zero_()


def _put(leaf: torch.Tensor) -> torch.Tensor:
    """Return a stand-in with one element for a value, an index or a mask."""
    return _a_place(leaf.new_empty([1] * leaf.ndim))


def _without_value(leaf: Any) -> Any:
    return Number(type(leaf.value)(1)) if isinstance(leaf, Number) else leaf


def _stands_for_a_tensor(argument: torch.Argument, value: Any) -> bool:
    return str(argument.type) == "Tensor" and type(value) in (int, float)


def _places(indices: list[torch.Tensor | None], values: torch.Tensor) -> list[Any]:
    """Replace masks with indices, unless there is exactly one value to write.

    The stand-in for `values` always has one element. With a mask and a single value, the CPU runs a
    different kernel, which is correct only if the real call also has a single value.
    """
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


# Elementwise operators that torch does not tag as pointwise. All of them accept tensors of ones.
_OF_ONES = _named(
    "aminmax binary_cross_entropy bucketize complex dist floor_divide floor_divide_ huber_loss isin masked_fill masked_fill_ "
    "mse_loss polar rsub smooth_l1_loss soft_margin_loss"
)
# Random operators, for which the CPU checks the values of the distribution's parameters.
_OF_PARAMETERS = _named(
    "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ native_dropout normal_ random_ "
    "uniform uniform_"
)
# Operators that write a number to a tensor, whose dtype must be able to represent the number.
_FILLING = _named("fill fill_ full index_fill index_fill_ masked_fill masked_fill_")
_PUTS = _named("_index_put_impl_ index_put index_put_")
# Operators with an index argument, for which 0 is a valid index.
_OF_PLACES = _named(
    "gather index_add index_add_ index_copy index_copy_ index_fill index_fill_ "
    "index_reduce index_reduce_ put put_ scatter scatter_ scatter_add "
    "scatter_add_ scatter_reduce scatter_reduce_"
)
_OF_OTHERS: dict[str, StandIn] = {
    "aten::_histogramdd_bin_edges": _a_row,
    "aten::as_strided_scatter": _zeros,
    # A mask of zeros, because the source may be empty.
    "aten::masked_scatter": _zeros,
    "aten::masked_scatter_": _zeros,
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
        # Use up to two elements per dimension: for a single element, the CPU has a separate kernel,
        # which rejects nothing.
        return _two
    return _a_one if each or name in _OF_ONES or name in _OF_PARAMETERS else _OF_OTHERS.get(name)
