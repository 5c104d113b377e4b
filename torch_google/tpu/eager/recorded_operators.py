# SPDX-License-Identifier: Apache-2.0
"""The operators that the C++ recorder handles, and those whose scalars are program inputs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from torch_google.tpu import _C, cache, lowerings

if TYPE_CHECKING:
    import jax

# This many values of a scalar get their own programs before the scalar becomes a program input.
_MOST_BAKED = 8
# Operators whose best program depends on a scalar's value: x**2, for example, is computed as a
# product. A division by an integer can likewise be specialized for its divisor.
_BAKED = (
    *("aten::pow", "aten::float_power", "aten::__lshift__", "aten::__rshift__"),
    "aten::floor_divide",
)
# Operators, in addition to the elementwise ones, whose scalar arguments are inputs of the program.
# A scalar such as a learning rate may change often, and a new value then needs no new program.
_SCALAR_INPUTS = (
    "aten::_amp_update_scale_",
    "aten::_fused_ada",
    "aten::_fused_sgd",
    "aten::bernoulli.p",
    "aten::bernoulli_.float",
    "aten::constant_pad_nd",
    "aten::fill_",
    "aten::full",
    "aten::index_fill",
    "aten::leaky_relu",
    "aten::lerp_",
    "aten::linspace",
    "aten::native_dropout",
    "aten::scalar_tensor",
    "aten::scatter.value",
    "aten::scatter_.value",
    "aten::uniform",
    "torch_google::block",
    "torch_google::place",
)
# torch's own kernels for these operators return views, although their schemas do not say so.
_VIEWS = ("aten::_unsafe_view", "aten::unsafe_split.Tensor", "aten::unsafe_split_with_sizes")
# torch's own kernels for these operators copy into a view of a zero tensor. The view's offset is an
# input of the program, so the gradients of x[0], x[1], ... share a program.
_VIEW_GRADIENTS = ("aten::select_backward", "aten::slice_backward")

# torch implements these in-place operators only for its built-in devices, so this package lowers
# their out-of-place variants.
_OURS = (
    "aten::addr.out",
    "aten::addr_",
    "aten::conj_physical_",
    "aten::cummax.out",
    "aten::cummin.out",
    "aten::logcumsumexp.out",
    "aten::mode.values",
)
_known: set[str] = set()
_baked: defaultdict[str, set[float]] = defaultdict(set)


def record(devices: Sequence[jax.Device]) -> None:
    """Register the C++ recorder as the kernel for every operator that the device implements.

    The first process loads the table of lowerings to determine the operators, which takes a third
    of a second. Later processes read the list of operators from the compile cache.
    """
    fingerprint = f"operators {_digest()}"
    entry = cache.load_entry(fingerprint, devices)
    operators = entry.note if entry is not None and _is_words(entry.note) else None
    if operators is None:
        operators = names()
        cache.store_entry(fingerprint, devices, cache.Entry(None, operators))
    _C.record_operators(operators)


def names() -> list[str]:
    """Return the operators to record: those that torch does not compose from other operators."""
    lowered = lowerings.names()
    return [name for name in _all_names() if _is_recorded(name, name in lowered)]


def scalars_are_inputs(op: OpOverload, args: Sequence[Any], *, forget: bool = False) -> bool:
    """Return whether an operator's scalars become inputs now: True at most once per operator.

    Scalars that do not affect the choice of program become inputs immediately. Others become inputs
    after they have had many different values, so that beta ** step is not compiled at every step.
    If `forget` is set, the operator's scalars never become inputs.
    """
    if forget:
        _known.add(op.name())
    if op.name() in _known:
        return False
    harmless = torch.Tag.pointwise in op.tags or op.name().startswith(_SCALAR_INPUTS)
    if not harmless or op.name().startswith(_BAKED):
        values = _baked[op.name()]
        values.update(
            arg
            for arg, argument in zip(args, op._schema.arguments, strict=True)
            if isinstance(arg, int | float) and _is_number(argument)
        )
        if len(values) <= _MOST_BAKED:
            return False
        del _baked[op.name()]
    _known.add(op.name())
    return True


def _is_words(note: object) -> bool:
    return isinstance(note, list) and all(isinstance(name, str) for name in note)


def _is_number(argument: torch.Argument) -> bool:
    type_names = ("number", "float", "Tensor")  # the caller may pass a number for a tensor
    return str(argument.type).removeprefix("Optional[").removesuffix("]") in type_names


def _digest() -> str:
    """Return a digest of everything that affects `names`, except for package versions."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    has_one = (f"{name} {has(name, 'PrivateUse1')}" for name in _all_names())
    text = "\n".join((*has_one, *sorted(lowerings.foreign())))
    return hashlib.sha256(text.encode()).hexdigest()


def _all_names() -> list[str]:
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name for name in names if name.startswith("aten::"))


def _is_recorded(name: str, lowered: bool) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if name == "aten::copy_" or name in _OURS:
        return True
    if has(name, "PrivateUse1") or has(name, "CompositeImplicitAutograd"):
        return False
    if name in _VIEWS or name in _VIEW_GRADIENTS:
        return False
    op = _find(name)
    if op is not None and (
        _moves(op) or torch.Tag.inplace_view in op.tags or name == "aten::empty_permuted"
    ):
        return False  # the operator only manages memory, so torch's own kernel works
    if has(name, "CompositeExplicitAutogradNonFunctional"):
        return True
    if has(name, "CompositeExplicitAutograd") and not lowered:
        return False
    if not (lowered or has(name, "CPU") or has(name, "Meta")):
        return False
    return op is not None and not _is_view(op)


def _find(name: str) -> OpOverload | None:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    return op if isinstance(op, OpOverload) else None


def _is_view(op: OpOverload) -> bool:
    return any(
        result.alias_info is not None and not result.alias_info.is_write
        for result in op._schema.returns
    )


def _moves(op: OpOverload) -> bool:
    """Return whether the result may be on a different device from the tensor arguments."""
    arguments = op._schema.arguments
    return any(a.name == "device" for a in arguments) and any(
        "Tensor" in str(a.type) for a in arguments
    )
