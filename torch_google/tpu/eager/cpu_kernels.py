# SPDX-License-Identifier: Apache-2.0
"""Decides which calls may run on torch's CPU kernels instead of compiled programs.

CPU kernels are used on the `cpu` platform, whose buffers are host memory. C++
(`../csrc/cpu_kernels.cpp`) calls `admit` once for each kind of call. Calls of the same kind differ
only in sizes, so a new size neither runs Python code nor needs a compilation. `admit` checks a call
as `miss` does, so the device rejects the same calls with and without CPU kernels. If a kernel
raises an error, C++ calls `miss`, which raises the device's error or compiles the call.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import jax
import torch
from torch._ops import OpOverload
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, program
from torch_google.tpu.eager import host_shapes, overlap
from torch_google.tpu.eager.compiled_op import trace_call
from torch_google.tpu.eager.normalized_call import Base, NewTensor, NormalizedCall, as_a_kernel
from torch_google.tpu.eager.recorded_operators import scalars_are_inputs
from torch_google.tpu.program import BakedNumber, Number, refusals

# Name prefixes of the operators that always run as programs, grouped by reason.
_COMPILED = {
    "decompositions are unique only up to signs or order, and check their inputs on the device": (
        *("_linalg_", "linalg_", "lu_", "cholesky", "geqrf", "orgqr", "ormqr", "triangular_solve"),
        *("_cholesky", "matrix_exp", "_trilinear"),
    ),
    "equal elements may have another order": (
        *("sort", "topk", "kthvalue", "median", "nanmedian", "mode", "unique", "_unique"),
        *("argsort", "msort"),
    ),
    "the schema does not declare all writes, or the CPU's statistics differ": (
        *("native_batch_norm", "_native_batch_norm", "_batch_norm", "cudnn_batch_norm"),
        *("batch_norm", "miopen_batch_norm", "_thnn_", "native_group_norm"),
    ),
    "the CPU resizes the tensor that it writes": ("addbmm_",),
    "the CPU does not define the result for a large or negative distance": (
        *("__lshift__", "__rshift__", "__ilshift__", "__irshift__"),
        *("bitwise_left_shift", "bitwise_right_shift"),
    ),
    "they keep the strides of their view of the storage": (
        *("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"),
    ),
    "their samples decide between equal windows": ("fractional_max_pool",),
    "uninitialized memory": ("empty", "new_empty"),
    "the CPU's result has no memory": ("_efficientzerotensor",),
}
# Operators that torch tags as random, although they reject dropout and so are deterministic.
_NEVER_RANDOM = frozenset({"aten::_scaled_dot_product_flash_attention_for_cpu"})
# Operators without Tag.pointwise that check their arguments before they write.
_PLAIN_WRITES = frozenset({"aten::copy_", "aten::fill_", "aten::masked_fill_", "aten::zero_"})
# Operators that write to the positions in the dimension `dim` that their argument `index` selects.
_INDEXED = frozenset(
    {
        *("aten::index_add_", "aten::index_copy_", "aten::index_fill_"),
        *("aten::scatter_", "aten::scatter_add_"),
    }
)
# Operators that divide integers. On x86, the CPU's kernels end the process (SIGFPE) if they divide
# the smallest integer by -1.
_DIVISIONS = frozenset(
    {"aten::div", "aten::floor_divide", "aten::fmod", "aten::lcm", "aten::remainder"}
)
# C++ divides these as int32, so their quotients do not overflow.
_SMALL_INTEGERS = frozenset({torch.int8, torch.uint8, torch.int16, torch.bool})
# Tags of operators whose result sizes, or results on the host, depend on values.
_HAS_VALUE_SIZES = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})
_PREFIXES = tuple(f"aten::{prefix}" for prefixes in _COMPILED.values() for prefix in prefixes)


class Admission(enum.IntEnum):
    """The return value of `admit` for a call that may not use its CPU kernel.

    For a call that may use it, `admit` returns a pair: a description of the results, in the format
    of `CompiledOp.results`, and an `InPlace`.
    """

    NEVER = 0
    # C++ must compute the call's key again, because the operator's scalars became inputs or
    # constants.
    AGAIN = 1
    UNDECIDED = 2  # this call needs `miss`, but another call of the same kind may not


class InPlace(enum.IntEnum):
    """Whether a kernel may overwrite the memory of the tensor that it writes to.

    Such a kernel must not throw after its first write: C++ then runs a program, which reads the old
    values.
    """

    NEVER = 0  # the kernel writes to a copy of the storage
    POINTWISE = 1  # the kernel may, if its operands broadcast to the sizes of that tensor
    INDEXED = 2  # the kernel may, if all elements of its argument `index` are valid


def admit(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> Admission | tuple[list[NewTensor | int | None], InPlace]:
    """Decide whether calls of this kind may use their CPU kernel.

    Takes the same arguments as `miss`. The call is checked and traced, but not compiled.
    """
    if is_always_compiled(op):
        return Admission.NEVER
    with as_a_kernel():
        args = pytree.tree_map_only(UninitializedTensorMixin, lambda lazy: lazy.data, args)
        if scalars_are_inputs(op, args):
            _C.set_scalars_are_inputs(op.name(), True)
            return Admission.AGAIN
        try:
            return _checked(op, args, bases, device)
        except BakedNumber:
            scalars_are_inputs(op, (), forget=True)
            _C.set_scalars_are_inputs(op.name(), False)
            return Admission.AGAIN
        except (
            *(refusals.Refusal, overlap.Overlap, NotImplementedError, RuntimeError),
            *(IndexError, ValueError, TypeError, AssertionError),
        ):
            # C++ then calls `miss`, which raises the error for the user.
            return Admission.UNDECIDED


def is_always_compiled(op: OpOverload) -> bool:
    """Return whether an operator never uses its CPU kernel."""
    schema = op._schema
    return (
        op.namespace != "aten"
        or schema.name.startswith(_PREFIXES)
        # Random numbers must be the same in CPU kernels and in programs.
        or (torch.Tag.nondeterministic_seeded in op.tags and schema.name not in _NEVER_RANDOM)
        or any("Generator" in str(argument.type) for argument in schema.arguments)
        # An out= argument may have to be resized. The results of pointwise operators have the sizes
        # to which their operands broadcast, so C++ sees a resize in advance.
        or (_has_out(op) and torch.Tag.pointwise not in op.tags)
    )


def runs_in_graphs(op: OpOverload, args: Sequence[Any]) -> bool:
    """Return whether an operator in a torch.compile graph may use its CPU kernel.

    `args` holds all arguments in schema order, with fake tensors. torch.compile has checked them.
    """
    return not (
        op._schema.is_mutable
        or is_always_compiled(op)
        or not _HAS_VALUE_SIZES.isdisjoint(op.tags)
        or host_shapes.has_mask(op, list(args))
        or _truncates(op, args)
        or _may_overflow(op, args)
        or _is_pinned(op, args)
        or _counts_indices(op, args)
    )


def _checked(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> Admission | tuple[list[NewTensor | int | None], InPlace]:
    if host_shapes.has_mask(op, args) or _truncates(op, args) or _is_pinned(op, args):
        return Admission.NEVER
    if _counts_indices(op, args) or _may_overflow(op, args):
        return Admission.NEVER
    call = NormalizedCall(op, args, bases)
    written = call.written()
    storages = [base[2] for base in bases]
    overlap.check(op, call.views, storages, written)
    shared = any(storages.count(storages[index]) > 1 for index in written)
    if shared and torch.Tag.pointwise not in op.tags:
        return Admission.NEVER  # the kernel may read elements that it has already written
    refusals.check(op, args)
    call.check()
    try:
        lowered = program.lower_op(call.pure.op, *call.pure_arguments())
        if lowered.host_shape or lowered.random:
            return Admission.NEVER
        refusals.check_written(op, args, call.written_as(lowered))
        if call.outs_to_resize(lowered):
            return Admission.UNDECIDED  # `miss` checks them before it resizes them
        call.resize(lowered)  # only rejects written arguments of another shape
        trace_call(call, lowered, device)
    except jax.errors.JAXTypeError as error:
        raise BakedNumber(str(error)) from error
    return call.results(lowered), _in_place(op, args)


def _in_place(op: OpOverload, args: Sequence[Any]) -> InPlace:
    written = [a for a in op._schema.arguments if a.alias_info and a.alias_info.is_write]
    if len(written) != 1 or len(op._schema.returns) > 1:
        return InPlace.NEVER
    if op._schema.name in _INDEXED:
        return InPlace.INDEXED
    if op._schema.name in _PLAIN_WRITES:
        return InPlace.POINTWISE
    # Pointwise operators check their arguments first, but integers cannot be divided by zero.
    tensors = [leaf for leaf in pytree.tree_leaves(list(args)) if isinstance(leaf, torch.Tensor)]
    is_safe = torch.Tag.pointwise in op.tags and not any(_is_integral(t.dtype) for t in tensors)
    return InPlace.POINTWISE if is_safe else InPlace.NEVER


def _has_out(op: OpOverload) -> bool:
    return any(argument.is_out for argument in op._schema.arguments)


def _truncates(op: OpOverload, args: Sequence[Any]) -> bool:
    """Return whether a call casts floats to integers. In C++, overflows in casts are undefined."""
    tensors = [leaf for leaf in pytree.tree_leaves(list(args)) if isinstance(leaf, torch.Tensor)]
    targets = {leaf for leaf in pytree.tree_leaves(list(args)) if isinstance(leaf, torch.dtype)}
    if op._schema.name == "aten::copy_":
        targets = {tensors[0].dtype}
    integral = any(_is_integral(dtype) for dtype in targets)
    return integral and any(not _is_integral(t.dtype) and t.dtype != torch.bool for t in tensors)


def _may_overflow(op: OpOverload, args: Sequence[Any]) -> bool:
    """Return whether a call may divide integers by 0, or the smallest integer by -1.

    XLA defines these results.
    """
    if op._schema.name.removesuffix("_") not in _DIVISIONS:
        return False
    if op._schema.name.startswith("aten::div") and not isinstance(args[-1 - _has_out(op)], str):
        return False  # without a rounding mode, the quotient is a float
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if not all(t.dtype == torch.bool or _is_integral(t.dtype) for t in tensors):
        return False
    divisor = args[1].value if isinstance(args[1], Number) else args[1]
    if isinstance(divisor, int | float):
        # C++ calls `admit` separately for each of these two divisors (../csrc/call_kind.h).
        return divisor in (-1, 0)
    return not all(t.dtype in _SMALL_INTEGERS for t in tensors)


def _is_integral(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _counts_indices(op: OpOverload, args: Sequence[Any]) -> bool:
    """Return whether a kernel counts indices without checking them.

    The forward operator may have run as a program, which clamps an invalid index.
    """
    return op is torch.ops.aten.embedding_dense_backward.default and bool(args[4])


def _is_pinned(op: OpOverload, args: Sequence[Any]) -> bool:
    return any(
        argument.name == "pin_memory" and bool(value)
        for argument, value in zip(op._schema.arguments, args, strict=True)
    )
