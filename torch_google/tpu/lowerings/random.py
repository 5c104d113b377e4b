# SPDX-License-Identifier: Apache-2.0
"""Random numbers. Each lowering takes a JAX key, which the caller derives from the generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import random

from torch_google.tpu.dtypes import default_dtype, to_jax, to_torch
from torch_google.tpu.lowerings.promotion import Array, Operand, floats, wide
from torch_google.tpu.lowerings.table import lowering


def _real(x: Array) -> np.dtype:
    """Return the dtype in which to draw random numbers for a tensor like x."""
    dtype = to_torch(x.dtype)
    return to_jax(wide(dtype)) if dtype.is_floating_point else np.dtype(np.float32)


def _or_default(dtype: torch.dtype | None) -> np.dtype:
    return to_jax(wide(default_dtype() if dtype is None else dtype))


def _normals(key: Array, shape: Sequence[int], dtype: np.dtype) -> Array:
    return random.normal(key, tuple(shape), dtype)


def _between(x: Array, low: Operand, high: Operand, dtype: np.dtype) -> Array:
    """Cast x to a dtype without rounding up to `high`. If [low, high) is empty, return `low`."""
    # In half precision, the cast may round a sample just below `high` up to `high`.
    narrow, first, limit = x.astype(dtype), jnp.asarray(low, dtype), jnp.asarray(high, dtype)
    last = jnp.nextafter(limit, jnp.asarray(-jnp.inf, dtype))
    return jnp.where(narrow < limit, narrow, jnp.where(first < limit, last, first))


@lowering("aten::normal_functional", random=True)
def normal(
    self: Array, mean: Operand = 0.0, std: Operand = 1.0, *, generator: Any = None, key: Array
) -> Array:
    if jnp.issubdtype(self.dtype, jnp.complexfloating):
        # normal_() draws the real and the imaginary part, each with the full mean and half the
        # variance.
        return mean * (1 + 1j) + std * random.normal(key, self.shape, self.dtype)
    return mean + std * _normals(key, self.shape, _real(self))


@lowering("aten::normal.Tensor_Tensor", "aten::normal.Tensor_float", random=True)
def normal_of(mean: Array, std: Operand = 1.0, *, generator: Any = None, key: Array) -> Array:
    middle, spread = floats(mean, std)
    shape = jnp.broadcast_shapes(middle.shape, spread.shape)
    return middle + spread * _normals(key, shape, middle.dtype)


@lowering("aten::normal.float_Tensor", random=True)
def normal_with(mean: Operand, std: Array, *, generator: Any = None, key: Array) -> Array:
    (spread,) = floats(std)
    return mean + spread * _normals(key, spread.shape, spread.dtype)


@lowering("aten::normal.float_float", random=True)
def normal_sized(
    mean: Operand,
    std: Operand,
    size: Sequence[int],
    *,
    generator: Any = None,
    dtype: torch.dtype | None = None,
    key: Array,
) -> Array:
    return mean + std * _normals(key, size, _or_default(dtype))


@lowering("aten::randn", "aten::randn.generator", random=True)
def randn(
    size: Sequence[int], *, generator: Any = None, dtype: torch.dtype | None = None, key: Array
) -> Array:
    return _normals(key, size, _or_default(dtype))


@lowering("aten::randn_like", "aten::randn_like.generator", random=True)
def randn_like(
    self: Array, *, generator: Any = None, dtype: torch.dtype | None = None, key: Array
) -> Array:
    return _normals(key, self.shape, _or_default(dtype or to_torch(self.dtype)))


@lowering("aten::rand", "aten::rand.generator", random=True)
def rand(
    size: Sequence[int], *, generator: Any = None, dtype: torch.dtype | None = None, key: Array
) -> Array:
    torch_dtype = default_dtype() if dtype is None else dtype
    if torch_dtype.is_complex:
        parts = random.uniform(key, (2, *size), to_jax(torch_dtype.to_real()))
        return jax.lax.complex(parts[0], parts[1])
    draw = random.uniform(key, tuple(size), to_jax(wide(torch_dtype)))
    return _between(draw, 0.0, 1.0, to_jax(torch_dtype))


@lowering("aten::rand_like", "aten::rand_like.generator", random=True)
def rand_like(
    self: Array, *, generator: Any = None, dtype: torch.dtype | None = None, key: Array
) -> Array:
    return rand(self.shape, dtype=dtype or to_torch(self.dtype), key=key)


@lowering("aten::uniform", random=True)
def uniform(
    self: Array, *limits: Operand, generator: Any = None, key: Array, **named: Operand
) -> Array:
    """Draw from [from, to). The parameters are positional, because `from` is a Python keyword."""
    low = limits[0] if limits else named.get("from", 0.0)
    high = limits[1] if len(limits) > 1 else named.get("to", 1.0)
    if jnp.iscomplexobj(self):  # draw the real and imaginary parts
        parts = [uniform(self.real, low, high, key=k) for k in random.split(key)]
        return jax.lax.complex(parts[0], parts[1])
    draw = random.uniform(key, self.shape, _real(self))
    return _between(low + (high - low) * draw, low, high, self.dtype)


def _whole(key: Array, shape: Sequence[int], low: Operand, high: Operand) -> Array:
    return random.randint(key, tuple(shape), low, high, jnp.int64)


@lowering("aten::randint", "aten::randint.generator", random=True)
def randint(
    high: int,
    size: Sequence[int],
    *,
    generator: Any = None,
    dtype: torch.dtype | None = torch.int64,
    key: Array,
) -> Array:
    return _whole(key, size, 0, high)


@lowering("aten::randint.low", "aten::randint.low_generator", random=True)
def randint_low(
    low: int,
    high: int,
    size: Sequence[int],
    *,
    generator: Any = None,
    dtype: torch.dtype | None = torch.int64,
    key: Array,
) -> Array:
    return _whole(key, size, low, high)


@lowering(
    "aten::randint_like", "aten::randint_like.generator", "aten::randint_like.Tensor", random=True
)
def randint_like(
    self: Array,
    high: Operand,
    *,
    generator: Any = None,
    dtype: torch.dtype | None = None,
    key: Array,
) -> Array:
    return _whole(key, self.shape, 0, high)


@lowering("aten::randint_like.low_dtype", "aten::randint_like.low_generator_dtype", random=True)
def randint_like_low(
    self: Array,
    low: int,
    high: int,
    *,
    generator: Any = None,
    dtype: torch.dtype | None = None,
    key: Array,
) -> Array:
    return _whole(key, self.shape, low, high)


def _limit(dtype: torch.dtype) -> int:
    """Return n + 1 for the largest n such that a dtype represents all integers up to n."""
    if dtype == torch.bool:
        return 2
    if dtype.is_floating_point:
        return int(2 / torch.finfo(dtype).eps) + 1
    return int(torch.iinfo(dtype).max) + (dtype != torch.int64)


@lowering("aten::random", random=True)
def random_whole(self: Array, *, generator: Any = None, key: Array) -> Array:
    return _whole(key, self.shape, 0, _limit(to_torch(self.dtype)))


@lowering("aten::random.to", random=True)
def random_to(self: Array, to: int, *, generator: Any = None, key: Array) -> Array:
    return _whole(key, self.shape, 0, to)


@lowering("aten::random.from", random=True)
def random_from(
    self: Array, *limits: int | None, generator: Any = None, key: Array, **named: int | None
) -> Array:
    """Draw from [from, to). If `to` is None, draw up to the maximum of the dtype."""
    low = limits[0] if limits else named["from"]
    high = limits[1] if len(limits) > 1 else named["to"]
    return _whole(key, self.shape, low, _limit(to_torch(self.dtype)) if high is None else high)


@lowering("aten::randperm", "aten::randperm.generator", random=True)
def randperm(
    n: int, *, generator: Any = None, dtype: torch.dtype | None = torch.int64, key: Array
) -> Array:
    return random.permutation(key, n)


@lowering("aten::bernoulli", random=True)
def bernoulli(self: Array, *, generator: Any = None, key: Array) -> Array:
    return random.uniform(key, self.shape, _real(self)) < self


@lowering("aten::bernoulli.p", "aten::bernoulli.Tensor", random=True)
def bernoulli_p(self: Array, p: Operand = 0.5, *, generator: Any = None, key: Array) -> Array:
    return random.uniform(key, self.shape, _real(self)) < p


@lowering("aten::exponential", random=True)
def exponential(self: Array, lambd: Operand = 1.0, *, generator: Any = None, key: Array) -> Array:
    dtype = _real(self)
    # torch never returns zero here, because callers divide by the sample or take its logarithm.
    return jnp.maximum(random.exponential(key, self.shape, dtype), jnp.finfo(dtype).eps / 2) / lambd


@lowering("aten::cauchy", random=True)
def cauchy(
    self: Array,
    median: Operand = 0.0,
    sigma: Operand = 1.0,
    *,
    generator: Any = None,
    key: Array,
) -> Array:
    return median + sigma * random.cauchy(key, self.shape, _real(self))


@lowering("aten::geometric", random=True)
def geometric(self: Array, p: Operand, *, generator: Any = None, key: Array) -> Array:
    """Return the number of trials until the first success, at least 1."""
    dtype = _real(self)
    draw = random.uniform(key, self.shape, dtype, minval=jnp.finfo(dtype).tiny)
    return jnp.maximum(jnp.ceil(jnp.log(draw) / jnp.log1p(-p)), 1)


@lowering("aten::log_normal", random=True)
def log_normal(
    self: Array, mean: Operand = 1.0, std: Operand = 2.0, *, generator: Any = None, key: Array
) -> Array:
    return jnp.exp(mean + std * _normals(key, self.shape, _real(self)))


@lowering("aten::poisson", random=True)
def poisson(self: Array, generator: Any = None, *, key: Array) -> Array:
    (rate,) = floats(self)
    return random.poisson(key, rate, self.shape).astype(rate.dtype)


@lowering("aten::binomial", random=True)
def binomial(count: Array, prob: Array, generator: Any = None, *, key: Array) -> Array:
    trials, chance = floats(count, prob)
    shape = jnp.broadcast_shapes(trials.shape, chance.shape)
    return random.binomial(key, trials, chance, shape, dtype=trials.dtype)


@lowering("aten::multinomial", random=True)
def multinomial(
    self: Array,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    key: Array,
) -> Array:
    """Sample categories by weight. Without replacement, use the Gumbel top-k trick."""
    (weights,) = floats(self)
    scores = jnp.log(weights)
    if replacement:
        shape = (*weights.shape[:-1], num_samples)
        lead = jnp.expand_dims(scores, -2)
        return random.categorical(key, lead, axis=-1, shape=shape).astype(jnp.int64)
    scores = scores + random.gumbel(key, scores.shape, scores.dtype)
    return jax.lax.top_k(scores, num_samples)[1].astype(jnp.int64)


@lowering("aten::_standard_gamma", random=True)
def standard_gamma(self: Array, generator: Any = None, *, key: Array) -> Array:
    (shape_parameter,) = floats(self)
    drawn = random.gamma(key, shape_parameter, dtype=shape_parameter.dtype)
    return jnp.maximum(drawn, jnp.finfo(self.dtype).tiny)


@lowering("aten::_standard_gamma_grad")
def standard_gamma_grad(self: Array, output: Array) -> Array:
    return jax.lax.random_gamma_grad(*floats(self, output))


@lowering("aten::_sample_dirichlet", random=True)
def sample_dirichlet(self: Array, generator: Any = None, *, key: Array) -> Array:
    (concentration,) = floats(self)
    drawn = random.dirichlet(key, concentration, dtype=concentration.dtype)
    # As in torch, exclude 0 and 1, because the density may be infinite there.
    limits = jnp.finfo(self.dtype)
    return jnp.clip(drawn, limits.tiny, 1 - limits.epsneg)
