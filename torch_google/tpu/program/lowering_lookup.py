# SPDX-License-Identifier: Apache-2.0
"""Finds lowerings for operators in torch's prims namespace, through equivalent aten operators."""

from __future__ import annotations

from functools import cache

import torch
from torch._ops import OpOverload

from torch_google.tpu import lowerings
from torch_google.tpu.lowerings import Lowering

# The prims that an aten operator of the same name can replace. These prims are merely stricter:
# they require operands of equal dtypes and shapes. Prims with a different meaning are left out,
# such as `prims::div`, which truncates the quotient of integers.
_OVERLOADS = {
    "default": "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc exp exp2 expm1 "
    "floor frexp imag lgamma log log10 log1p log2 neg reciprocal round rsqrt sign signbit sin sinh "
    "sqrt tan tanh trunc real bitwise_not atan2 fmax fmin gcd hypot igamma igammac maximum minimum "
    "nextafter",
    "Tensor": "add sub mul bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge fmod remainder",
    "Tensor_Tensor": "pow",
    "self": "where",
}
_NAMES = {"erf_inv": "erfinv", "ndtri": "special_ndtri", "erfcx": "special_erfcx"}


def lowering_of(op: OpOverload) -> Lowering | None:
    """Return the lowering of an operator or of a prim's aten equivalent, or None if it has none."""
    own = lowerings.find(op)
    if own is not None or op.namespace != "prims":
        return own
    namesake = _namesake(op)
    return None if namesake is None else lowerings.find(namesake)


@cache
def _namesake(op: OpOverload) -> OpOverload | None:
    name = op._schema.name.removeprefix("prims::")
    packet = getattr(torch.ops.aten, _NAMES.get(name, name), None)
    for overload, names in _OVERLOADS.items():
        if name in names.split() or (name in _NAMES and overload == "default"):
            return getattr(packet, overload, None)
    return None
