# SPDX-License-Identifier: Apache-2.0
"""Trial runs of operators on the CPU, to detect calls that the CPU's kernels reject.

torch's meta kernels check sizes well but dtypes loosely: they accept comparisons of complex
numbers, or a softmax of integers. An operator therefore runs on the CPU before it first runs on the
device. Its tensors are replaced with zeros. The tensors of a small call keep their sizes; those of
a large call are cut to at most 8 elements per dimension.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.program.number import Number, accepted_arguments, apply

REFUSALS = (RuntimeError, IndexError, ValueError, TypeError)
StandIn: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

# A call with at most this many elements (64 x 64) is tried on the CPU with its actual sizes. The
# number includes elements implied by sizes passed as arguments. An eigenvalue problem of that size
# takes 3 ms; every other operator takes less than 1 ms.
_MOST_ELEMENTS = 4096
# The maximum size of a dimension in each trial run of a large call. The second run is needed only
# if the first raises an error that is not about dtypes. Size 8 leaves room for 7 x 7 windows.
_CORNERS = (8, 1)
_LARGE_NUMBER = 64

# Operators with an offsets argument that must match the other tensors' sizes. They are not tried on
# the CPU, because a stand-in for the offsets would not match.
_OF_OFFSETS = ("aten::_padded_dense_to_jagged_forward",)


_INTEGERS = dict.fromkeys(
    (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), torch.float32
)
_HALVES = dict.fromkeys((torch.float16, torch.bfloat16), torch.float32)
# Dtypes that torch supports on CUDA but not on the CPU. Programs may use them on any accelerator,
# so the trial run uses another dtype. The dtypes come from OpInfo, torch's database of operator
# tests.
_ON_ACCELERATORS: dict[str, dict[torch.dtype, torch.dtype]] = {
    "aten::histc": _INTEGERS,
    "aten::avg_pool3d": _HALVES,
    "aten::avg_pool3d_backward": _HALVES,
    "aten::_upsample_bilinear2d_aa": _HALVES,
    "aten::_upsample_bilinear2d_aa_backward": _HALVES,
    "aten::_upsample_bicubic2d_aa": _HALVES,
    "aten::_upsample_bicubic2d_aa_backward": _HALVES,
    "aten::multi_margin_loss": _HALVES,
    "aten::multi_margin_loss_backward": _HALVES,
    "aten::multilabel_margin_loss_forward": _HALVES,
    "aten::multilabel_margin_loss_backward": _HALVES,
    "aten::rrelu_with_noise": {torch.float16: torch.float32},
}


class Refusal(Exception):
    """Raised if the CPU rejects a call. `error` is the exception that the CPU raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def check(op: OpOverload, args: Sequence[Any]) -> None:
    """Raise Refusal if the CPU rejects the dtypes of a call or, for a small call, other arguments.

    Errors caused by tensor values or by missing CPU kernels are ignored. Operators that other
    libraries define are not tried on the CPU, because their kernels may have side effects.
    """
    name = op._schema.name
    if op.namespace != "aten" or name in _OF_OFFSETS:
        return
    tensors = [leaf for leaf in pytree.tree_leaves(list(args)) if isinstance(leaf, torch.Tensor)]
    if name.endswith("_backward") and any(_has_gradients(tensor) for tensor in tensors):
        # The forward operator has already had a trial run. Skip the backward operator: the forward
        # operator saved tensors, such as the statistics of a bfloat16 layer norm, in the device's
        # dtypes, which may differ from the CPU's.
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
    """Run an operator on the CPU with stand-ins for device tensors, and raise Refusal if it fails.

    The run changes neither the CPU's default generator nor CPU tensors among the arguments. If
    `sized` is set, the stand-ins for out= arguments have the sizes of these arguments; otherwise
    they are empty.
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
    """Return the CPU's exception, or None if the call succeeds or the CPU lacks the operator."""
    others = _accelerator_dtypes(op, args)
    values = [
        _argument(argument, value, stand_in, others, empty=argument.is_out and not sized)
        for argument, value in zip(op._schema.arguments, args, strict=True)
    ]
    try:
        with _same_draws(op):
            apply(op, accepted_arguments(op, values, "cpu"))
    except REFUSALS as error:
        return None if _is_no_refusal(error) else error
    return None


def _accelerator_dtypes(op: OpOverload, args: Sequence[Any]) -> dict[torch.dtype, torch.dtype]:
    """Return the dtypes of inputs that only accelerators support, and those for the trial run.

    Other dtypes of out= arguments are kept, so that the trial run shows whether they are accepted.
    """
    others = _ON_ACCELERATORS.get(op._schema.name, {})
    inputs = [
        value
        for argument, value in zip(op._schema.arguments, args, strict=True)
        if not argument.is_out
    ]
    leaves = pytree.tree_leaves(inputs)
    found = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}
    return {dtype: other for dtype, other in others.items() if dtype in found}


def _argument(
    argument: torch.Argument,
    value: Any,
    stand_in: StandIn,
    others: Mapping[torch.dtype, torch.dtype],
    *,
    empty: bool,
) -> Any:
    """Return the trial run's argument. `others` maps a tensor's dtype to that of its stand-in."""
    if argument.name == "pin_memory":
        return None
    if argument.name == "unsafe":
        return True  # with this flag, the CPU does not check the values of lengths
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
            # Do not clone a tensor that is only read: it may stand for a Python number, and type
            # promotion treats a clone as a tensor.
            return leaf.clone() if _is_written(argument) else leaf
        # With an empty stand-in for an out= argument, the trial run ignores the argument's size.
        # The meta kernel warns if the size is wrong.
        chosen = torch.empty(0, dtype=leaf.dtype) if empty else stand_in(leaf)
        return chosen.to(others.get(chosen.dtype, chosen.dtype))

    return pytree.tree_map(one, value)


def _is_written(argument: torch.Argument) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


@contextmanager
def _same_draws(op: OpOverload) -> Iterator[None]:
    """Restore the state of the CPU's default generator on exit, if the operator is random."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        yield
        return
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def _is_no_refusal(error: Exception) -> bool:
    """Return whether an error means only that the CPU lacks a kernel."""
    return any(phrase in str(error) for phrase in _WITHOUT_A_KERNEL)


def _is_about_dtypes(error: Exception) -> bool:
    return isinstance(error, NotImplementedError) or _DTYPES.search(str(error)) is not None


def _has_gradients(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _elements(args: Sequence[Any], tensors: Sequence[torch.Tensor]) -> int:
    """Return an upper bound on the number of elements that a call reads and creates."""
    sizes = [abs(leaf) for leaf in _integers(args) if abs(leaf) > _LARGE_NUMBER]
    return sum(tensor.numel() for tensor in tensors) * math.prod(sizes)


def _integers(args: Sequence[Any]) -> list[int]:
    leaves = [getattr(leaf, "value", leaf) for leaf in pytree.tree_leaves(list(args))]
    return [leaf for leaf in leaves if type(leaf) is int]


def _clamped(args: Sequence[Any], most: int) -> list[Any]:
    """Replace large numbers in the arguments, such as sizes and range ends, with +-`most`."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Number):
            return leaf  # a Number is not a size, and the run checks its value against the dtype
        if type(leaf) in (int, float) and not abs(leaf) <= _LARGE_NUMBER:
            return type(leaf)(math.copysign(most, leaf))
        return leaf

    return [pytree.tree_map(one, arg) for arg in args]


def _zeros(leaf: torch.Tensor) -> torch.Tensor:
    # Masks are all true, because the CPU skips kernels for masks that are all false. Other tensors
    # are zeros, which are also valid indices.
    return _filled(leaf, leaf.shape, leaf.dtype == torch.bool)


def _ones(leaf: torch.Tensor) -> torch.Tensor:
    return _filled(leaf, leaf.shape, True)


def _corner(longest: int) -> StandIn:
    return lambda leaf: _filled(
        leaf, [min(size, longest) for size in leaf.shape], leaf.dtype == torch.bool
    )


def _filled(leaf: torch.Tensor, sizes: Sequence[int], value: bool) -> torch.Tensor:
    """Return a filled tensor with the given sizes and the same stride order as `leaf`.

    The result is contiguous only if `leaf` is. Some CPU operators have separate kernels for
    contiguous inputs, and the two kernels raise different exceptions for the same dtype.
    """
    if leaf.is_contiguous():
        return torch.full(sizes, value, dtype=leaf.dtype)
    order = sorted(range(leaf.dim()), key=leaf.stride, reverse=True)
    filled = torch.full([sizes[dim] for dim in order], value, dtype=leaf.dtype)
    filled = filled.permute([order.index(dim) for dim in range(leaf.dim())])
    if not filled.is_contiguous():
        return filled
    return torch.full([*sizes[:-1], 2 * sizes[-1]], value, dtype=leaf.dtype)[..., ::2]


_WITHOUT_A_KERNEL = ("Could not run '", "no tensor arguments to this function", "determinis")
_DTYPES = re.compile(r"type|complex|[Bb]ool|[Ii]nteg|[Ff]loat")
# Matches errors caused by the values of stand-ins, such as lengths with the wrong sum.
_VALUES = re.compile(r"to sum to|allocated size|[Ii]ndex.* out of|out of bounds")
