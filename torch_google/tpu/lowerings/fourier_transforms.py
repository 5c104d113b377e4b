# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms over any number of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.table import lowering

_BY_ROOT, _BY_SIZE = 1, 2  # values of torch's fft_norm_mode; 0 means none


@lowering("aten::_fft_c2c")
def complex_to_complex(
    x: jax.Array, dim: Sequence[int], normalization: int, forward: bool
) -> jax.Array:
    out = x.astype(jnp.promote_types(x.dtype, jnp.complex64))
    for axis in dim:
        if forward:
            out = jnp.fft.fft(out, axis=axis)
        else:
            out = jnp.fft.ifft(out, axis=axis, norm="forward")
    return _scaled(out, [x.shape[axis] for axis in dim], normalization)


@lowering("aten::_fft_r2c")
def real_to_complex(
    x: jax.Array, dim: Sequence[int], normalization: int, onesided: bool
) -> jax.Array:
    if not onesided:
        return complex_to_complex(x, dim, normalization, True)
    out = complex_to_complex(jnp.fft.rfft(x, axis=dim[-1]), dim[:-1], 0, True)
    return _scaled(out, [x.shape[axis] for axis in dim], normalization)


@lowering("aten::_fft_c2r")
def complex_to_real(
    x: jax.Array, dim: Sequence[int], normalization: int, last_dim_size: int
) -> jax.Array:
    out = complex_to_complex(x, dim[:-1], 0, False)
    out = jnp.fft.irfft(out, n=last_dim_size, axis=dim[-1], norm="forward")
    sizes = [*(x.shape[axis] for axis in dim[:-1]), last_dim_size]
    return _scaled(out, sizes, normalization)


def _scaled(x: jax.Array, sizes: Sequence[Any], normalization: int) -> jax.Array:
    count = math.prod(sizes)
    if normalization == _BY_ROOT:
        return x / math.sqrt(count)
    return x / count if normalization == _BY_SIZE else x
