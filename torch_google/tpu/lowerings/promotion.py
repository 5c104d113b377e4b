# SPDX-License-Identifier: Apache-2.0
"""torch's type promotion, for lowerings that compute with several dtypes.

There are three kinds of operand: tensors with dimensions, zero-dimensional tensors, and numbers.
The highest category (bool < integer < float < complex) of all operands wins. If several kinds have
operands in that category, the kind that is listed first decides. A number is a Python number or a
traced scalar that JAX marks as weakly typed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_google.tpu.dtypes import default_dtype, to_jax, to_torch
from torch_google.tpu.release import V2_6

Array: TypeAlias = jax.Array
Scalar: TypeAlias = bool | int | float | complex
Real: TypeAlias = bool | int | float
Operand: TypeAlias = Any
"""An Array, or a number."""

_HALF = (torch.bfloat16, torch.float16)


def is_number(value: Operand) -> bool:
    """Return whether torch treats the operand as a number, not as a zero-dimensional tensor."""
    if isinstance(value, bool | int | float | complex):
        return True
    return value.ndim == 0 and bool(getattr(value, "weak_type", False))


def dtype_of(value: Operand) -> torch.dtype:
    """Return an operand's dtype. A number has the dtype that promotion uses for it."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, int):
        return torch.int64
    if isinstance(value, float):
        return default_dtype()
    if isinstance(value, complex):
        return default_dtype().to_complex()
    dtype = to_torch(value.dtype)
    if is_number(value):
        if dtype.is_complex:
            return default_dtype().to_complex()
        if dtype.is_floating_point:
            return default_dtype()
    return dtype


def result_type(*operands: Operand) -> torch.dtype:
    """Return the dtype in which torch combines the operands. Operands that are None are ignored."""
    by_kind: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        kind = 2 if is_number(operand) else 1 if operand.ndim == 0 else 0
        previous, dtype = by_kind[kind], dtype_of(operand)
        by_kind[kind] = dtype if previous is None else torch.promote_types(previous, dtype)
    result = _above(by_kind[0], _above(by_kind[1], by_kind[2]))
    if result is None:
        raise TypeError("tpu: no operand to take a dtype from. Pass a tensor or a number")
    return result


def floating(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype if it is floating-point or complex, otherwise torch's default dtype."""
    if dtype.is_floating_point or dtype.is_complex:
        return dtype
    return default_dtype()


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the computation dtype: float32 for half precision, so only the result is rounded."""
    return torch.float32 if dtype in _HALF else dtype


def rounded(value: Array, dtype: torch.dtype) -> Array:
    """Cast to a dtype, as torch does before summing, then widen half precision to float32."""
    return convert(convert(value, dtype), wide(dtype))


def convert(value: Operand, dtype: torch.dtype) -> Array:
    """Cast as torch does: integers wrap around, and complex numbers lose their imaginary part."""
    target = to_jax(dtype)
    if isinstance(value, bool | int | float | complex):
        if target == jnp.float8_e4m3fn:
            return _saturated(jnp.asarray(value, jnp.float64)).astype(target)
        if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
            return jnp.asarray(value, target)
        integer = int(value.real if isinstance(value, complex) else value)
        bits = target.itemsize * 8
        integer &= (1 << bits) - 1
        if np.issubdtype(target, np.signedinteger) and integer >> (bits - 1):
            integer -= 1 << bits
        return jnp.asarray(np.asarray(integer, target))
    source = to_torch(value.dtype)
    if source == torch.bool and jnp.issubdtype(target, jnp.inexact):
        # Do not convert the bool directly, because XLA would turn a multiplication by it into a
        # select, so that False * nan would be 0.
        return jnp.where(value, jnp.ones((), target), jnp.zeros((), target))
    if source.is_complex and not dtype.is_complex:
        value = (value != 0) if dtype == torch.bool else value.real
    if jnp.issubdtype(value.dtype, jnp.floating) and jnp.issubdtype(target, jnp.integer):
        # XLA saturates out-of-range floats, whereas torch truncates them and keeps the low bits.
        signed = lax.convert_element_type(value, jnp.int64 if target.itemsize > 2 else jnp.int32)
        if target == np.uint64:
            large = lax.convert_element_type(value, target)
            return jnp.where(value >= 2.0**63, large, lax.convert_element_type(signed, target))
        value = signed
    if target == jnp.float8_e4m3fn:
        value = _saturated(value)
    return lax.convert_element_type(value, target)


def _saturated(value: Array) -> Array:
    """Clip a value to the range of float8_e4m3fn, which has no infinity.

    torch casts a larger value to the dtype's maximum, XLA and torch v2.6 to NaN.
    """
    if V2_6:
        return value
    highest = float(jnp.finfo(jnp.float8_e4m3fn).max)
    wide = value if value.dtype == jnp.float64 else value.astype(jnp.float32)
    return jnp.clip(wide, -highest, highest)


def common(*operands: Operand) -> tuple[Array, ...]:
    """Cast the operands to the dtype in which torch combines them, without widening it."""
    dtype = result_type(*operands)
    return tuple(convert(operand, dtype) for operand in operands)


def computed(*operands: Operand) -> tuple[Array, ...]:
    """Cast the operands to their common dtype, or to float32 if that is a half-precision dtype."""
    dtype = wide(result_type(*operands))
    return tuple(convert(operand, dtype) for operand in operands)


def floats(*operands: Operand) -> tuple[Array, ...]:
    """Cast the operands to their common float dtype, or to float32 instead of half precision."""
    dtype = wide(floating(result_type(*operands)))
    return tuple(convert(operand, dtype) for operand in operands)


def _above(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if _category(lower) <= _category(higher):
        return higher
    if lower.is_complex and higher.is_floating_point:
        return higher.to_complex()
    return lower if higher == torch.bool else torch.promote_types(higher, lower)


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype == torch.bool else 1
