# SPDX-License-Identifier: Apache-2.0
"""Products of float8 or int8 matrices that are scaled per tensor, row or column.

The products are computed in float32, and each result is rounded once. As on the CPU, float8
operands have either one scale each, or one for each row of the first and for each column of the
second; `meta_kernels.py` rejects others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.dtypes import to_jax, to_torch
from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.promotion import convert
from torch_google.tpu.lowerings.table import lowering

_FLOAT8 = (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz)


@lowering("aten::_weight_int8pack_mm")
def weight_int8pack_mm(x: jax.Array, weight: jax.Array, scales: jax.Array) -> jax.Array:
    """Multiply `x` by the transpose of int8 weights, which have a scale for each row."""
    product = _product(opmath(x), weight.T.astype(jnp.float32))
    return (product * opmath(scales)).astype(x.dtype)


@lowering("aten::_scaled_mm")
def scaled_mm(
    a: jax.Array,
    b: jax.Array,
    scale_a: jax.Array,
    scale_b: jax.Array,
    bias: jax.Array | None = None,
    scale_result: jax.Array | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> jax.Array:
    """Multiply float8 matrices.

    As on the CPU, a float8 result is divided by `scale_result`; other results ignore it.
    """
    dtype = a.dtype if out_dtype is None else jnp.dtype(to_jax(out_dtype))
    product = _product(a.astype(jnp.float32), b.astype(jnp.float32))
    product = product * _factor(scale_a) * _factor(scale_b)
    if bias is not None:
        product = product + bias.astype(jnp.float32)
    if scale_result is not None and dtype in _FLOAT8:
        product = product / scale_result.reshape(())
    return convert(product, to_torch(dtype))


@lowering("aten::_scaled_mm_v2")
def scaled_mm_v2(
    a: jax.Array,
    b: jax.Array,
    scale_a: Sequence[jax.Array],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[jax.Array],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: jax.Array | None,
    out_dtype: Any,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> jax.Array:
    """Multiply float8 matrices. Ignore the recipes: the shapes of the scales determine them."""
    return scaled_mm(a, b, scale_a[0], scale_b[0], bias, None, out_dtype)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def _factor(scale: jax.Array) -> jax.Array:
    return scale.reshape(()) if scale.size == 1 else scale
