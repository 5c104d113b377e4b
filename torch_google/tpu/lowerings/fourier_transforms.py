# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms over any number of axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.platform_choice import refuse_on_tpu
from torch_google.tpu.lowerings.table import lowering

_BY_ROOT, _BY_SIZE = 1, 2  # values of torch's fft_norm_mode; 0 means none
_NO_WIDE_TRANSFORMS = "its compiler has no Fourier transforms of 64-bit floats. Use float32"


@lowering("aten::_fft_c2c")
def complex_to_complex(
    x: jax.Array, dim: Sequence[int], normalization: int, forward: bool
) -> jax.Array:
    return _transformed("aten::_fft_c2c", x, dim, normalization, forward)


def _transformed(
    name: str, x: jax.Array, dim: Sequence[int], normalization: int, forward: bool
) -> jax.Array:
    out = x.astype(jnp.promote_types(x.dtype, jnp.complex64))
    for axis in dim:
        transform = jnp.fft.fft if forward else partial(jnp.fft.ifft, norm="forward")
        out = _computed(name, partial(transform, axis=axis), out)
    return _scaled(out, [x.shape[axis] for axis in dim], normalization)


def _computed(name: str, transform: Callable[..., Any], x: jax.Array) -> jax.Array:
    """Return `transform(x)`. A TPU rejects 64-bit floats with an error that names the operator."""
    out: jax.Array = refuse_on_tpu(
        transform, x, name=name, reason=_NO_WIDE_TRANSFORMS, only_64_bits=True
    )
    return out


@lowering("aten::_fft_r2c")
def real_to_complex(
    x: jax.Array, dim: Sequence[int], normalization: int, onesided: bool
) -> jax.Array:
    name = "aten::_fft_r2c"
    if not onesided:
        return _transformed(name, x, dim, normalization, True)
    halves = _computed(name, partial(jnp.fft.rfft, axis=dim[-1]), x)
    out = _transformed(name, halves, dim[:-1], 0, True)
    return _scaled(out, [x.shape[axis] for axis in dim], normalization)


@lowering("aten::_fft_c2r")
def complex_to_real(
    x: jax.Array, dim: Sequence[int], normalization: int, last_dim_size: int
) -> jax.Array:
    name = "aten::_fft_c2r"
    out = _transformed(name, x, dim[:-1], 0, False)
    real = partial(jnp.fft.irfft, n=last_dim_size, axis=dim[-1], norm="forward")
    out = _computed(name, real, out)
    sizes = [*(x.shape[axis] for axis in dim[:-1]), last_dim_size]
    return _scaled(out, sizes, normalization)


def _scaled(x: jax.Array, sizes: Sequence[Any], normalization: int) -> jax.Array:
    count = math.prod(sizes)
    if normalization == _BY_ROOT:
        return x / math.sqrt(count)
    return x / count if normalization == _BY_SIZE else x
