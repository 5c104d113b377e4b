# SPDX-License-Identifier: Apache-2.0
"""Matmuls at JAX's default precision. Half-precision products are accumulated in float32.

A TPU cannot multiply int64 matrices. On a TPU, the operands are therefore split into int8 pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.dtypes import to_jax
from torch_google.tpu.lowerings.integer_products import exact_product
from torch_google.tpu.lowerings.opmath import is_zero, opmath, scalar
from torch_google.tpu.lowerings.platform_choice import choose
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::mm", "aten::bmm", "aten::mv", "aten::dot")
def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return _product(a, b)


@lowering("aten::vdot")
def vdot(a: jax.Array, b: jax.Array) -> jax.Array:
    return _product(jnp.conj(a), b)


@lowering("aten::mm.dtype", "aten::bmm.dtype")
def matmul_dtype(a: jax.Array, b: jax.Array, out_dtype: Any) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=to_jax(out_dtype))


@lowering("aten::_int_mm")
def int_mm(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


@lowering("aten::addmm", "aten::addmv", "aten::baddbmm")
def add_product(c: jax.Array, a: jax.Array, b: jax.Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _combine(c, _product(a, b), beta, alpha)


@lowering("aten::addmm.dtype", "aten::baddbmm.dtype")
def add_product_dtype(
    c: jax.Array, a: jax.Array, b: jax.Array, out_dtype: Any, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    return _combine(c, matmul_dtype(a, b, out_dtype), beta, alpha)


@lowering("aten::addbmm")
def addbmm(c: jax.Array, a: jax.Array, b: jax.Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    # Contract over the batch as well, in a single matmul, so that no batched result is stored.
    dims = (((0, 2), (0, 1)), ((), ()))

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return jax.lax.dot_general(a, b, dims, preferred_element_type=_accumulator(a))

    def exact(a: jax.Array, b: jax.Array) -> jax.Array:
        left = jnp.moveaxis(a, 1, 0).reshape(a.shape[1], -1)
        return exact_matmul(left, b.reshape(-1, b.shape[2]))

    wide = a.dtype == b.dtype == jnp.int64
    summed = choose(a, b, tpu=exact, default=product) if wide else product(a, b)
    return _combine(c, summed, beta, alpha)


@lowering("aten::addr")
def addr(c: jax.Array, a: jax.Array, b: jax.Array, *, beta: Any = 1, alpha: Any = 1) -> Any:
    outer = opmath(a)[:, None] * opmath(b)[None, :]
    return _combine(c, outer, beta, alpha)


@lowering("aten::_addmm_activation")
def addmm_activation(
    c: jax.Array,
    a: jax.Array,
    b: jax.Array,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
) -> Any:
    x = add_product(c, a, b, beta=beta, alpha=alpha)
    return jax.nn.gelu(x, approximate=False) if use_gelu else jax.nn.relu(x)


@lowering("aten::_trilinear")
def trilinear(
    i1: jax.Array,
    i2: jax.Array,
    i3: jax.Array,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> jax.Array:
    """Insert axes of size 1 into each factor, multiply, and sum over `sumdim`, as one einsum."""
    rank = i1.ndim + len(expand1)
    subscripts = [
        [axis for axis in range(rank) if axis not in set(expand)]
        for expand in (expand1, expand2, expand3)
    ]
    kept_axes = [axis for axis in range(rank) if axis not in set(sumdim)]
    factors = [opmath(x) for x in (i1, i2, i3)]

    def summed(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
        return jnp.einsum(a, subscripts[0], b, subscripts[1], c, subscripts[2], kept_axes)

    def elementwise(*factors: jax.Array) -> jax.Array:
        axes = (expand1, expand2, expand3)
        a, b, c = (jnp.expand_dims(x, tuple(e)) for x, e in zip(factors, axes, strict=True))
        return (a * b * c).sum(tuple(sumdim))

    if any(x.dtype != jnp.int64 for x in factors):
        return summed(*factors)
    total: jax.Array = choose(*factors, tpu=elementwise, default=summed)
    return total


def _accumulator(x: jax.Array) -> Any:
    if x.dtype in (jnp.float16, jnp.bfloat16):
        return jnp.float32
    return jnp.int32 if x.dtype == jnp.bool_ else x.dtype


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    # torch does not compare the dtypes if the product is empty.
    if a.dtype != b.dtype and not (a.size and b.size):
        return jnp.zeros((*a.shape[:-1], *b.shape[b.ndim - 1 :]), b.dtype)
    if a.dtype != b.dtype:  # torch's meta kernels do not compare the dtypes
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )
    if a.dtype == jnp.bool_:
        a, b = a.astype(jnp.int32), b.astype(jnp.int32)
    if a.dtype == jnp.int64:
        return choose(a, b, tpu=exact_matmul, default=jnp.matmul)
    return jnp.matmul(a, b, preferred_element_type=_accumulator(a))


def exact_matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the product of int64 matrices. The operands are split into int8 pieces."""
    product = partial(jnp.matmul, preferred_element_type=jnp.int32)
    return exact_product(product, a, b, axes=(a.ndim - 1, max(b.ndim - 2, 0)))


def _combine(c: jax.Array, product: jax.Array, beta: Any, alpha: Any) -> jax.Array:
    """Return beta * c + alpha * product. If beta is 0, c is ignored, even if it contains NaN.

    Raises RuntimeError unless c can be expanded to the shape of the product. torch's meta kernels
    do not check this: they accept a larger c.
    """
    if jnp.broadcast_shapes(c.shape, product.shape) != product.shape:
        raise RuntimeError(
            f"a sum with a product of shape {product.shape} does not accept a tensor of shape {c.shape}. "
            "Use one that expands to the shape of the product"
        )
    if jnp.issubdtype(product.dtype, jnp.integer):
        # For integers, torch truncates beta and alpha.
        beta, alpha = (int(v) if isinstance(v, float) else v for v in (beta, alpha))
    product = product * scalar(alpha, product)
    if is_zero(beta):
        return product
    c = c.astype(jnp.promote_types(c.dtype, product.dtype))
    scaled = c * scalar(beta, c)
    if not isinstance(beta, int | float | complex):
        scaled = jnp.where(jnp.asarray(beta) == 0, jnp.zeros((), scaled.dtype), scaled)
    return scaled + product
