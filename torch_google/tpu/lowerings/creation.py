# SPDX-License-Identifier: Apache-2.0
"""Operators that create tensors from scalars. Uninitialized tensors are filled with zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_google.tpu.dtypes import default_dtype, to_jax, to_torch
from torch_google.tpu.lowerings.platform_choice import choose
from torch_google.tpu.lowerings.promotion import Array, Operand, Real, convert, dtype_of
from torch_google.tpu.lowerings.table import lowering


def _or_default(dtype: torch.dtype | None) -> np.dtype:
    return to_jax(default_dtype() if dtype is None else dtype)


def _filled(size: Sequence[int], value: Operand, dtype: torch.dtype) -> Array:
    return jnp.broadcast_to(convert(value, dtype), tuple(size))


@lowering("aten::full")
def full(size: Sequence[int], fill_value: Operand, *, dtype: torch.dtype | None = None) -> Array:
    return _filled(size, fill_value, dtype_of(fill_value) if dtype is None else dtype)


@lowering("aten::full_like")
def full_like(self: Array, fill_value: Operand, *, dtype: torch.dtype | None = None) -> Array:
    return _filled(self.shape, fill_value, to_torch(self.dtype) if dtype is None else dtype)


@lowering("aten::new_full")
def new_full(
    self: Array, size: Sequence[int], fill_value: Operand, *, dtype: torch.dtype | None = None
) -> Array:
    return _filled(size, fill_value, to_torch(self.dtype) if dtype is None else dtype)


@lowering("aten::scalar_tensor")
def scalar_tensor(s: Operand, *, dtype: torch.dtype | None = None) -> Array:
    return convert(s, default_dtype() if dtype is None else dtype)


@lowering("aten::zeros", "aten::empty.memory_format", "aten::_efficientzerotensor")
def zeros(size: Sequence[int], *, dtype: torch.dtype | None = None) -> Array:
    return jnp.zeros(tuple(size), _or_default(dtype))


@lowering("aten::ones")
def ones(size: Sequence[int], *, dtype: torch.dtype | None = None) -> Array:
    return jnp.ones(tuple(size), _or_default(dtype))


@lowering("aten::empty_strided", "aten::empty_permuted")
def empty_strided(
    size: Sequence[int], layout_of_memory: Sequence[int], *, dtype: torch.dtype | None = None
) -> Array:
    return zeros(size, dtype=dtype)


@lowering("aten::zeros_like", "aten::empty_like")
def zeros_like(self: Array, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.zeros_like(self, dtype=None if dtype is None else to_jax(dtype))


@lowering("aten::ones_like")
def ones_like(self: Array, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.ones_like(self, dtype=None if dtype is None else to_jax(dtype))


@lowering("aten::new_zeros", "aten::new_empty")
def new_zeros(self: Array, size: Sequence[int], *, dtype: torch.dtype | None = None) -> Array:
    return jnp.zeros(tuple(size), self.dtype if dtype is None else to_jax(dtype))


@lowering("aten::new_ones")
def new_ones(self: Array, size: Sequence[int], *, dtype: torch.dtype | None = None) -> Array:
    return jnp.ones(tuple(size), self.dtype if dtype is None else to_jax(dtype))


@lowering("aten::new_empty_strided")
def new_empty_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype | None = None
) -> Array:
    return new_zeros(self, size, dtype=dtype)


@lowering("aten::arange")
def arange(end: Real, *, dtype: torch.dtype | None = None) -> Array:
    return arange_step(0, end, 1, dtype=dtype)


@lowering("aten::arange.start")
def arange_start(start: Real, end: Real, *, dtype: torch.dtype | None = None) -> Array:
    return arange_step(start, end, 1, dtype=dtype)


@lowering("aten::arange.start_step")
def arange_step(
    start: Real, end: Real, step: Real = 1, *, dtype: torch.dtype | None = None
) -> Array:
    is_integer = all(isinstance(number, int) for number in (start, end, step))
    if dtype is None:
        dtype = torch.int64 if is_integer else default_dtype()
    if dtype == torch.int64:
        start, end, step = int(start), int(end), int(step)
        is_integer = True
    length = -((start - end) // step) if is_integer else math.ceil((end - start) / step)
    if not dtype.is_floating_point:
        # For dtypes other than int64, which is handled above, torch computes the length from the
        # given numbers, but the values from the truncated start and step.
        start, step = int(start), int(step)
        is_integer = True
    return convert(start + jnp.arange(length, dtype=_wide(is_integer)) * step, dtype)


@lowering("aten::range.step")
def range_step(
    start: Real, end: Real, step: Real = 1, *, dtype: torch.dtype | None = None
) -> Array:
    """Return a range that includes `end`."""
    length = math.floor((end - start) / step) + 1
    is_integer = isinstance(start, int) and isinstance(step, int)
    numbers = start + jnp.arange(length, dtype=_wide(is_integer)) * step
    return convert(numbers, default_dtype() if dtype is None else dtype)


@lowering("aten::range")
def range_(start: Real, end: Real, *, dtype: torch.dtype | None = None) -> Array:
    return range_step(start, end, 1, dtype=dtype)


def _wide(is_integer: bool) -> np.dtype:
    return np.dtype(np.int64 if is_integer else np.float64)


@lowering(
    "aten::linspace",
    "aten::linspace.Tensor_Tensor",
    "aten::linspace.Tensor_Scalar",
    "aten::linspace.Scalar_Tensor",
)
def linspace(
    start: Operand, end: Operand, steps: int, *, dtype: torch.dtype | None = None
) -> Array:
    target = _target((start, end), dtype)
    return _spaced(start, end, steps, target, lambda values: values)


@lowering(
    "aten::logspace",
    "aten::logspace.Tensor_Tensor",
    "aten::logspace.Tensor_Scalar",
    "aten::logspace.Scalar_Tensor",
)
def logspace(
    start: Operand,
    end: Operand,
    steps: int,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
) -> Array:
    target = _target((start, end), dtype)

    def power(exponents: Array, base: Operand) -> Array:
        return jnp.power(jnp.asarray(base, exponents.dtype), exponents)

    return _spaced(start, end, steps, target, power, base)


def _target(ends: tuple[Operand, Operand], dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    default = default_dtype()
    return default.to_complex() if any(dtype_of(end).is_complex for end in ends) else default


def _spaced(
    start: Operand,
    end: Operand,
    steps: int,
    target: torch.dtype,
    function: Callable[..., Array],
    *others: Operand,
) -> Array:
    """Apply a function to evenly spaced values, which are computed in double precision.

    `others` are the function's other arguments.
    """
    if steps > 1:  # for a single step, torch returns the start unchanged
        start, end = convert(start, target), convert(end, target)
    wide = torch.complex128 if target.is_complex else torch.float64

    def in_double(first: Operand, last: Operand, *others: Operand) -> Array:
        values = _between(convert(first, wide), convert(last, wide), steps)
        return convert(function(values, *others), target)

    if not target.is_complex:
        return in_double(start, end, *others)

    def by_parts(first: Operand, last: Operand, *others: Operand) -> Array:
        first, last = convert(first, target), convert(last, target)
        parts = [
            _between(a.astype(jnp.float64), b.astype(jnp.float64), steps).astype(a.dtype)
            for a, b in ((first.real, last.real), (first.imag, last.imag))
        ]
        return function(lax.complex(*parts), *others)

    # A TPU has no complex128: a conversion to complex128, or a constant of that dtype, aborts
    # libtpu. Python's complex numbers would become such constants, so they are not passed to
    # `choose` as operands.
    def of_operands(function: Callable[..., Array]) -> Callable[..., Array]:
        def of_arrays(*arrays: Array) -> Array:
            rest = iter(arrays)
            return function(*(each if isinstance(each, complex) else next(rest) for each in given))

        return of_arrays

    given = start, end, *others
    arrays = [jnp.asarray(each) for each in given if not isinstance(each, complex)]
    values: Array = choose(*arrays, tpu=of_operands(by_parts), default=of_operands(in_double))
    return values


def _between(first: Array, last: Array, steps: int) -> Array:
    # Count from the nearer end, as torch does, so that both ends are exact and the middle is
    # symmetric.
    positions = jnp.arange(steps, dtype=first.real.dtype)
    # Hide from XLA that the divisor is constant. Otherwise, XLA would multiply by the reciprocal,
    # and integral values would be inexact.
    parts = jnp.where(jnp.isnan(first.real), jnp.nan, max(steps - 1, 1))
    step = (last - first) / parts
    near = max(steps // 2, 1)  # count the middle element from the end
    return jnp.where(
        positions < near, first + positions * step, last - (steps - 1 - positions) * step
    )


@lowering("aten::eye")
def eye(n: int, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.eye(n, dtype=_or_default(dtype))


@lowering("aten::eye.m")
def eye_m(n: int, m: int, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.eye(n, m, dtype=_or_default(dtype))


@lowering("aten::tril_indices")
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: torch.dtype | None = torch.int64
) -> Array:
    return _indices(np.tril_indices(row, offset, col))


@lowering("aten::triu_indices")
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: torch.dtype | None = torch.int64
) -> Array:
    return _indices(np.triu_indices(row, offset, col))


def _indices(pair: tuple[np.ndarray, np.ndarray]) -> Array:
    return jnp.asarray(np.stack(pair), jnp.int64)


@lowering("aten::kaiser_window.beta")
def kaiser_window(
    window_length: int, periodic: bool, beta: float, *, dtype: torch.dtype | None = None
) -> Array:
    if window_length < 2:
        return jnp.ones(window_length, _or_default(dtype))
    last = window_length if periodic else window_length - 1
    positions = 2 * jnp.arange(window_length, dtype=jnp.float64) / last - 1
    # Rounding may make the difference slightly negative at the ends, so clamp it to zero.
    width = beta * jnp.sqrt(jnp.maximum(1 - positions * positions, 0))
    # Use exponentially scaled Bessel functions, because i0 overflows for a large beta.
    top, bottom = jax.scipy.special.i0e(width), jax.scipy.special.i0e(jnp.float64(beta))
    return convert(top / bottom * jnp.exp(width - beta), dtype or default_dtype())


@lowering("aten::kaiser_window", "aten::kaiser_window.periodic")
def plain_kaiser_window(
    window_length: int, periodic: bool = True, *, dtype: torch.dtype | None = None
) -> Array:
    return kaiser_window(window_length, periodic, 12.0, dtype=dtype)
