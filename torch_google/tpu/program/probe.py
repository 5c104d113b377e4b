# SPDX-License-Identifier: Apache-2.0
"""A trial run of an operator on the CPU, for the error that the CPU's kernel raises.

torch's kernels for meta tensors judge sizes well and dtypes loosely: to them the order of complex
numbers, or the softmax of integers, is fine. So an operator that is new to the device runs on the
CPU first: a small call with zeros of its own sizes, a large one with a corner of each tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.program.number import Number, apply, taken

REFUSALS = (RuntimeError, IndexError, ValueError, TypeError)
StandIn: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

# The most elements, of tensors and of sizes among the arguments, that a trial has: 64 x 64. An
# eigenvalue problem of that size takes 3 ms, everything else less than 1 ms.
_MOST_ELEMENTS = 4096
# The longest dimension and the largest number of a trial on corners: windows of 7 x 7 fit in.
_CORNERS = (8, 1)
_LARGE_NUMBER = 64

# Operators whose offsets have to match sizes, which no stand-ins would.
_OF_OFFSETS = ("aten::_padded_dense_to_jagged_forward",)


class Refusal(Exception):
    """The CPU refuses a call. `error` is what it raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def check(op: OpOverload, args: Sequence[Any]) -> None:
    """Raise Refusal if the CPU refuses a call for its dtypes, or a small one for any reason.

    An error that depends on the values of tensors is none, nor is the lack of a kernel for the CPU.
    Operators of other libraries have no trial: what they do on the CPU is for their callers.
    """
    name = op._schema.name
    if op.namespace != "aten" or name in _OF_OFFSETS:
        return
    tensors = [leaf for leaf in pytree.tree_leaves(list(args)) if isinstance(leaf, torch.Tensor)]
    if name.endswith("_backward") and any(_has_gradients(tensor) for tensor in tensors):
        # Its forward was tried. The statistics that this has saved, as those of a layer norm of
        # bfloat16, have the device's dtypes and not the CPU's.
        return
    if any(tensor.layout != torch.strided for tensor in tensors):
        return
    if tensors and _elements(args, tensors) <= _MOST_ELEMENTS:
        _check_small(op, args)
        return
    for longest in _CORNERS:
        error = _error(op, _clamped(args, longest), _corner(longest))
        if error is None:
            return
        if _is_about_dtypes(error):
            raise Refusal(error)


def run(op: OpOverload, args: Sequence[Any], stand_in: StandIn, *, sized: bool = False) -> None:
    """Run an operator on the CPU, each tensor of the device replaced. Raises Refusal.

    The CPU's default generator, and tensors of the CPU among the arguments, keep their values.
    `sized`: what out= arguments are replaced by has their sizes, otherwise it is empty.
    """
    error = _error(op, args, stand_in, sized=sized)
    if error is not None:
        raise Refusal(error)


def _check_small(op: OpOverload, args: Sequence[Any]) -> None:
    error = _error(op, args, _zeros)
    if error is None:
        return
    if _is_about_dtypes(error):
        raise Refusal(error)
    other = _error(op, args, _ones)
    if other is None:
        return
    same = (type(other), str(other)) == (type(error), str(error))
    by_value = isinstance(error, torch.linalg.LinAlgError) or _VALUES.search(str(error)) is not None
    if _is_about_dtypes(other) or (same and not by_value):
        raise Refusal(other)


def _error(
    op: OpOverload, args: Sequence[Any], stand_in: StandIn, *, sized: bool = False
) -> Exception | None:
    """Return what the CPU raises, or None. For an operator that it does not have, None."""
    values = [
        _argument(argument, value, stand_in, empty=argument.is_out and not sized)
        for argument, value in zip(op._schema.arguments, args, strict=True)
    ]
    try:
        with _same_draws(op):
            apply(op, taken(op, values, "cpu"))
    except REFUSALS as error:
        return None if _is_no_refusal(error) else error
    return None


def _argument(argument: torch.Argument, value: Any, stand_in: StandIn, *, empty: bool) -> Any:
    if argument.name == "pin_memory":
        return None
    if argument.name == "unsafe":
        return True  # without a look at the values of lengths
    if str(argument.type) == "Optional[Generator]":
        return torch.Generator()

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.device.type == "cpu":
            # A copy of a Python number would be a tensor to torch, and promote otherwise.
            return leaf.clone() if _is_written(argument) else leaf
        # The sizes of a result are for the meta kernel to judge, and to warn of.
        return torch.empty(0, dtype=leaf.dtype) if empty else stand_in(leaf)

    return pytree.tree_map(one, value)


def _is_written(argument: torch.Argument) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


@contextmanager
def _same_draws(op: OpOverload) -> Iterator[None]:
    """Leave the CPU's default generator as it is."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        yield
        return
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def _is_no_refusal(error: Exception) -> bool:
    """Return whether an error says that the CPU has no such kernel, and nothing of the call."""
    return any(words in str(error) for words in _WITHOUT_A_KERNEL)


def _is_about_dtypes(error: Exception) -> bool:
    return isinstance(error, NotImplementedError) or _DTYPES.search(str(error)) is not None


def _has_gradients(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _elements(args: Sequence[Any], tensors: Sequence[torch.Tensor]) -> int:
    """Return a bound for the elements that a call reads and makes, by the sizes it names."""
    sizes = [abs(leaf) for leaf in _integers(args) if abs(leaf) > _LARGE_NUMBER]
    return sum(tensor.numel() for tensor in tensors) * math.prod(sizes)


def _integers(args: Sequence[Any]) -> list[int]:
    leaves = [getattr(leaf, "value", leaf) for leaf in pytree.tree_leaves(list(args))]
    return [leaf for leaf in leaves if type(leaf) is int]


def _clamped(args: Sequence[Any], most: int) -> list[Any]:
    """Return arguments whose large numbers are small: those of sizes, or of the end of a range."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Number):
            return leaf  # an input, so no size; a dtype may lack it
        if type(leaf) in (int, float) and not abs(leaf) <= _LARGE_NUMBER:
            return type(leaf)(math.copysign(most, leaf))
        return leaf

    return [pytree.tree_map(one, arg) for arg in args]


def _zeros(leaf: torch.Tensor) -> torch.Tensor:
    return _filled(leaf.shape, leaf.dtype)


def _ones(leaf: torch.Tensor) -> torch.Tensor:
    return torch.ones(leaf.shape, dtype=leaf.dtype)


def _corner(longest: int) -> StandIn:
    return lambda leaf: _filled([min(size, longest) for size in leaf.shape], leaf.dtype)


def _filled(sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return zeros, the first of all places. A mask has them all: of none, no kernel is called."""
    return torch.full(sizes, dtype == torch.bool, dtype=dtype)


_WITHOUT_A_KERNEL = ("Could not run '", "no tensor arguments to this function", "determinis")
_DTYPES = re.compile(r"type|complex|[Bb]ool|[Ii]nteg|[Ff]loat")
# Errors that zeros and ones lead to alike: lengths that add up to another size, an index of nothing.
_VALUES = re.compile(r"to sum to|allocated size|[Ii]ndex.* out of|out of bounds")
