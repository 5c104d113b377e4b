# SPDX-License-Identifier: Apache-2.0
"""Checks of values other than indices, such as probabilities, rates, lengths and pivots.

The error types and messages match the TORCH_CHECKs in torch's CPU kernels. Each function takes its
operator's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import Array

from torch_google.tpu.lowerings.checks import Check, Checks, check, rows

_NO_PROBABILITY = "Expected p_in >= 0 && p_in <= 1 to be true, but got false."


@check("aten::multinomial")
def multinomial(
    self: Array, num_samples: int, replacement: bool = False, generator: Any = None
) -> Checks:
    total = self.sum(-1)
    empty = _fails(
        (total <= 0).any(), "invalid multinomial distribution (sum of probabilities <= 0)"
    )
    if not replacement or num_samples == 1:
        message = "probability tensor contains either `inf`, `nan` or element < 0"
        return [_fails(~((self >= 0) & (self < jnp.inf)).all(), message), empty]
    message = "invalid multinomial distribution (encountering probability entry"
    return [
        _fails((self < 0).any(), f"{message} < 0)"),
        _fails(~jnp.isfinite(self).all(), f"{message} = infinity or NaN)"),
        empty,
    ]


@check("aten::bernoulli")
def bernoulli(self: Array, generator: Any = None) -> Checks:
    return [_fails(~_is_probability(self), _NO_PROBABILITY)]


@check("aten::bernoulli.Tensor")
def bernoulli_of_tensor(self: Array, p: Array, generator: Any = None) -> Checks:
    return bernoulli(p)


@check("aten::bernoulli.p")
def bernoulli_of_number(self: Array, p: Any, generator: Any = None) -> Checks:
    chance = jnp.asarray(p, jnp.float64)
    message = "bernoulli_ expects p to be in [0, 1], but got p={}"
    return [Check(~_is_probability(chance), (chance,), RuntimeError, message)]


@check("aten::native_dropout")
def native_dropout(x: Array, p: Any, train: bool | None) -> Checks:
    return bernoulli_of_number(x, 1 - jnp.asarray(p, jnp.float64)) if train is not False else []


@check("aten::poisson")
def poisson(self: Array, generator: Any = None) -> Checks:
    message = "invalid Poisson rate, expected rate to be non-negative"
    return [_fails(~(self >= 0).all(), message)]


@check("aten::normal.Tensor_Tensor", "aten::normal.float_Tensor")
def normal(mean: Any, std: Array, generator: Any = None, **_: Any) -> Checks:
    return [_fails(~(std >= 0).all(), "normal expects all elements of std >= 0.0")]


@check("aten::binary_cross_entropy")
def binary_cross_entropy(
    self: Array, target: Array, weight: Array | None = None, reduction: int = 1
) -> Checks:
    return [
        _fails(~_is_probability(x), f"all elements of {name} should be between 0 and 1")
        for name, x in (("input", self), ("target", target))
    ]


@check("aten::max_unpool2d")
def max_unpool2d(self: Array, indices: Array, output_size: Sequence[int]) -> Checks:
    return _unpooled(indices, output_size)


@check("aten::max_unpool3d")
def max_unpool3d(
    self: Array,
    indices: Array,
    output_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Checks:
    return _unpooled(indices, output_size)


def _unpooled(indices: Array, output_size: Sequence[int]) -> Checks:
    if not indices.size:
        return []
    volume = 1
    for size in output_size:
        volume *= size
    wrong = (indices < 0) | (indices >= volume)
    index = indices.reshape(-1)[jnp.argmax(wrong.reshape(-1))]
    sizes = "x".join(map(str, output_size))
    message = f"Found an invalid max index: {{}} (output volumes are of size {sizes})"
    return [Check(wrong.any(), (index,), RuntimeError, message)]


@check("aten::fractional_max_pool2d_backward", "aten::fractional_max_pool3d_backward")
def fractional_max_pool_backward(
    gradient: Array, x: Array, kernel_size: Sequence[int], output_size: Any, indices: Array
) -> Checks:
    return _unpooled(indices, x.shape[-len(kernel_size) :])


@check("aten::histc")
def histc(self: Array, bins: int = 100, min: Any = 0, max: Any = 0) -> Checks:  # noqa: A002
    if not self.size:
        return []
    least, most = jnp.asarray(min, self.dtype), jnp.asarray(max, self.dtype)
    is_unset = least == most  # equal bounds: the values determine the range
    least = jnp.where(is_unset, self.min(), least)
    most = jnp.where(is_unset, self.max(), most)
    message = "torch.histc: range of [{}, {}] is not finite"
    failed = ~(jnp.isfinite(least) & jnp.isfinite(most))
    return [Check(failed, (least, most), RuntimeError, message)]


@check("aten::histogram.bin_ct")
def histogram(self: Array, bins: int = 100, *, range: Any = None, **_: Any) -> Checks:  # noqa: A002
    return [] if range is not None else _ranges(self.reshape(-1, 1))


@check("aten::_histogramdd_bin_edges", "aten::_histogramdd_from_bin_cts")
def histogramdd(self: Array, bins: Any, *, range: Any = None, **_: Any) -> Checks:  # noqa: A002
    return [] if range is not None else _ranges(self.reshape(-1, self.shape[-1]))


def _ranges(points: Array) -> Checks:
    if not points.size:
        return []
    return [
        Check(
            ~jnp.isfinite(column).all(),
            (column.min(), column.max()),
            RuntimeError,
            f"torch.histogramdd: dimension {axis}'s range [{{}}, {{}}] is not finite",
        )
        for axis, column in enumerate(points.T)
    ]


@check("aten::searchsorted.Tensor", "aten::searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Array, self: Any, *, sorter: Array | None = None, **_: Any
) -> Checks:
    if sorter is None or not sorter.size:
        return []
    wrong = (sorter < 0) | (sorter >= sorted_sequence.shape[-1])
    return [_fails(wrong.any(), "torch.searchsorted(): sorter index out of range")]


@check("aten::lu_unpack")
def lu_unpack(
    packed: Array, pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> Checks:
    message = (
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        "Did you properly pass the result of lu_factor?"
    )
    wrong = (pivots < 1) | (pivots > packed.shape[-2])
    return [_fails(wrong.any(), message)] if unpack_pivots else []


@check("aten::linalg_lu_solve")
def lu_solve(packed: Array, pivots: Array, b: Array, **_: Any) -> Checks:
    message = (
        "Pivots given to lu_solve must all be {} LU.size(-2). "
        "Did you properly pass the result of lu_factor?"
    )
    return [
        _fails(
            (pivots < 1).any(), message.format("greater or equal to 1").replace(" LU.size(-2)", "")
        ),
        _fails((pivots > packed.shape[-2]).any(), message.format("smaller or equal to")),
    ]


@check("aten::linalg_ldl_solve")
def ldl_solve(packed: Array, pivots: Array, b: Array, **_: Any) -> Checks:
    message = (
        "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). "
        "Did you properly pass the result of ldl_factor?"
    )
    return [_fails((jnp.abs(pivots) > packed.shape[-2]).any(), message)]


@check("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(weight: Array, indices: Array, offsets: Array, *_: Any, **__: Any) -> Checks:
    if not offsets.size:
        return rows(weight, indices)
    size = indices.shape[0]
    first = (
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        "position 0. However, got {}"
    )
    last = f"offsets[-1] can not be greater than input's length {size} but got offsets[-1] of {{}}"
    return [
        Check(offsets[0] != 0, (offsets[0],), RuntimeError, first),
        Check(offsets[-1] > size, (offsets[-1],), RuntimeError, last),
        *rows(weight, indices),
    ]


@check("aten::segment_reduce")
def segment_reduce(
    data: Array,
    reduce: str,
    *,
    lengths: Array | None = None,
    axis: int = 0,
    unsafe: bool = False,
    **_: Any,
) -> Checks:
    if unsafe or lengths is None:
        return []
    message = (
        "segment_reduce(): Expected all rows of lengths along axis to sum to "
        "data.size(lengths.dim()-1) when !unsafe."
    )
    return [
        _fails((lengths < 0).any(), "lengths contains negative value!"),
        _fails((lengths.sum(-1) != data.shape[lengths.ndim - 1]).any(), message),
    ]


@check("aten::fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel(
    self: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
) -> Checks:
    wrong = (zero_point < quant_min) | (zero_point > quant_max)
    message = "`zero_point` must be between `quant_min` and `quant_max`."
    return [] if _is_floating(zero_point) else [_fails(wrong.any(), message)]


@check("aten::_assert_async", "aten::_assert_async.msg", "aten::_functional_assert_async.msg")
def assert_async(self: Array, message: str = "", *_: Any) -> Checks:
    text = message or "Expected Tensor with single nonzero value, but got zero"
    return [_fails((self == 0).any(), text.replace("{", "{{").replace("}", "}}"))]


@check("aten::linalg_eig")
def eig(self: Array) -> Checks:
    message = "torch.linalg.eig: input tensor should not contain infs or NaNs."
    return [_fails(~jnp.isfinite(self).all(), message)]


@check("aten::_linalg_svd")
def svd(self: Array, *_: Any, **__: Any) -> Checks:
    message = (
        "The algorithm failed to converge because the input matrix contained non-finite values."
    )
    # LAPACK rejects NaN, but accepts infinities, for which the result is arbitrary.
    return _of_a_matrix("linalg.svd", jnp.isnan(self).any((-2, -1)), message)


@check("aten::linalg_pinv.atol_rtol_tensor")
def pinv(self: Array, *, hermitian: bool = False, **_: Any) -> Checks:
    return [] if hermitian else svd(self)


@check("aten::cholesky")
def cholesky(self: Array, upper: bool = False) -> Checks:
    if not self.size:
        return []
    minor = _minor(jnp.conj(jnp.swapaxes(self, -1, -2)) if upper else self)
    message = (
        "The factorization could not be completed because the input is not positive-definite (the "
        "leading minor of order {} is not positive-definite)."
    )
    return _of_a_matrix("cholesky", minor > 0, message, minor)


def _minor(a: Array) -> Array:
    """Return the order of the first leading minor that is not positive, or 0 if there is none."""
    lower = jnp.tril(a)
    full = lower + jnp.conj(jnp.swapaxes(jnp.tril(a, -1), -1, -2))

    def eliminate(step: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, order = state
        pivot = jnp.real(jnp.take(jnp.take(rest, step, -1), step, -1))
        order = jnp.where((order == 0) & ~(pivot > 0), step + 1, order)
        column = jnp.take(rest, step, -1)
        outer = column[..., :, None] * jnp.conj(column)[..., None, :]
        return rest - outer / pivot[..., None, None], order

    start = (full, jnp.zeros(a.shape[:-2], jnp.int64))
    return jax.lax.fori_loop(0, a.shape[-1], eliminate, start)[1]


def _of_a_matrix(name: str, failed: Array, message: str, *values: Array) -> Checks:
    """Return a check that fails if `failed` is set for any matrix, and reports the first one."""
    if not failed.ndim:
        return [Check(failed, values, torch.linalg.LinAlgError, f"{name}: {message}")]
    if not failed.size:
        return []
    first = jnp.argmax(failed.reshape(-1))
    message_values = (first, *(value.reshape(-1)[first] for value in values))
    message = f"{name}: (Batch element {{}}): {message}"
    return [Check(failed.any(), message_values, torch.linalg.LinAlgError, message)]


def _is_floating(x: Array) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _is_probability(x: Array) -> Array:
    return ((x >= 0) & (x <= 1)).all()


def _fails(failed: Array, message: str) -> Check:
    return Check(failed, (), RuntimeError, message)
