# SPDX-License-Identifier: Apache-2.0
"""What the CPU refuses, for which torch's kernels for meta tensors have no words, or others.

They judge sizes well and dtypes loosely: to them a difference of bools is fine. So an operator that
is new to the device is run on the CPU: where only kinds count, on stand-ins of one element; where the
result is written as another dtype, or after a refusal, on zeros of the sizes given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.program import Number, taken
from torch_google.tpu.runtime.call import apply

_REFUSALS = (RuntimeError, IndexError, ValueError, TypeError)
_StandIn: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


def check(op: OpOverload, args: list[Any]) -> None:
    """Raise what the CPU raises for the dtypes and the other arguments of an operator.

    An operator that the CPU does not have raises nothing.
    """
    stand_in = _stand_in(op)
    if stand_in is None:
        return
    if op._schema.name in _PUTS:
        args = [args[0], _places(args[1], args[2]), *args[2:]]
    elif op._schema.name == "aten::full":
        if any(size < 0 for size in args[0]):
            return  # for others to refuse, who name it
        args = [[min(size, 2) for size in args[0]], *args[1:-1], None]  # in no pinned memory
    elif not looks_at_values(op):
        # No value of a number is refused where its kind is not.
        args = [
            type(value)(1) if _stands_for_a_tensor(argument, value) else value
            for argument, value in zip(
                op._schema.arguments, pytree.tree_map(_without_value, args), strict=True
            )
        ]
    values = [
        # The sizes of a result are for others to judge, and to warn of.
        value.new_empty(0) if argument.is_out and isinstance(value, torch.Tensor) else value
        for argument, value in zip(op._schema.arguments, _on_cpu(args, stand_in), strict=True)
    ]
    _run(op, values)


def looks_at_values(op: OpOverload) -> bool:
    """Whether the CPU refuses numbers for their values: programs take them as inputs."""
    return op._schema.name in _OF_PARAMETERS or op._schema.name in _FILLING


def check_written(
    op: OpOverload, args: list[Any], written: Sequence[tuple[torch.Tensor, torch.dtype]]
) -> None:
    """Raise what the CPU raises as a tensor that is written has another dtype than the result.

    `written`: such tensors, and the dtypes of results.
    """
    others = {id(tensor): dtype for tensor, dtype in written if tensor.dtype != dtype}
    if not others:
        return

    def as_computed(leaf: torch.Tensor) -> torch.Tensor:
        return _zeros(leaf).to(others.get(id(leaf), leaf.dtype))

    try:
        in_words_of_the_cpu(op, args)
    except _REFUSALS as refusal:
        try:
            _run(op, _on_cpu(args, as_computed))
        except _REFUSALS as other:
            if str(other) == str(refusal):
                return  # zeros are refused for what they are, whatever the dtype
        raise


def in_words_of_the_cpu(op: OpOverload, args: list[Any]) -> None:
    """Run an operator on zeros on the CPU, for the error that it raises there, if it does."""
    _run(op, _on_cpu(args, _zeros))


def _run(op: OpOverload, values: list[Any]) -> None:
    with contextlib.suppress(NotImplementedError):
        apply(op, taken(op, values, "cpu"))


def _on_cpu(args: list[Any], stand_in: _StandIn) -> list[Any]:
    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "tpu":
            return stand_in(leaf)
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.Generator):
            return None
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    return [pytree.tree_map(one, arg) for arg in args]


def _zeros(leaf: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).zero_()


def _a_one(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones([min(size, 1) for size in leaf.shape], dtype=leaf.dtype)


def _two(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones([min(size, 2) for size in leaf.shape], dtype=leaf.dtype)


def _a_place(leaf: torch.Tensor) -> torch.Tensor:
    """The first one, as an index or as a mask."""
    one = _a_one(leaf)
    return one if leaf.dtype == torch.bool else one.zero_()


def _put(leaf: torch.Tensor) -> torch.Tensor:
    """Something to put, or a place: a mask may take nothing, or one."""
    return _a_place(leaf.new_empty([1] * leaf.ndim))


def _without_value(leaf: Any) -> Any:
    return Number(type(leaf.value)(1)) if isinstance(leaf, Number) else leaf


def _stands_for_a_tensor(argument: torch.Argument, value: Any) -> bool:
    return str(argument.type) == "Tensor" and type(value) in (int, float)


def _places(indices: list[torch.Tensor | None], values: torch.Tensor) -> list[Any]:
    """Give indices in place of masks: with a mask and a single value other kernels are called."""
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


# Operators of which torch does not say that they work element by element, and products, to which one
# element will do as well. None of them minds a one.
_OF_ONES = _named(
    "addmm addmm_ addmv addmv_ addr addr_ aminmax baddbmm baddbmm_ binary_cross_entropy "
    "bucketize complex dist floor_divide floor_divide_ huber_loss isin masked_fill masked_fill_ "
    "masked_scatter masked_scatter_ mse_loss polar rsub smooth_l1_loss soft_margin_loss"
)
# Distributions, whose parameters count.
_OF_PARAMETERS = _named(
    "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform uniform_"
)
# What writes a number, which the dtype has to have.
_FILLING = _named("fill fill_ full index_fill index_fill_ masked_fill masked_fill_")
_PUTS = _named("_index_put_impl_ index_put index_put_")
# Operators to which the first place will do.
_OF_PLACES = _named(
    "gather index_add index_add_ index_copy index_copy_ index_fill index_fill_ "
    "index_reduce index_reduce_ put put_ scatter scatter_ scatter_add "
    "scatter_add_ scatter_reduce scatter_reduce_"
)
_OF_OTHERS: dict[str, _StandIn] = {
    "aten::_histogramdd_bin_edges": _a_row,
    # A batch of one is what the CPU's kernel refuses to write in place.
    "aten::addbmm": _two,
    "aten::addbmm_": _two,
    "aten::as_strided_scatter": _zeros,
    "aten::multinomial": _a_row,
}


def _stand_in(op: OpOverload) -> _StandIn | None:
    name = op._schema.name
    each = torch.Tag.pointwise in op.tags or name.startswith("aten::_foreach_")
    if name in _PUTS:
        return _put
    if name in _OF_PLACES:
        return _a_place
    if name in _FILLING:
        return _two  # one element is filled by another kernel, which refuses nothing
    return _a_one if each or name in _OF_ONES or name in _OF_PARAMETERS else _OF_OTHERS.get(name)
