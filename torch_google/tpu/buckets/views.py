# SPDX-License-Identifier: Apache-2.0
"""View operators, which split and merge dimensions' factors (extents), or move the padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import sympy

from torch_google.tpu.buckets.padded_array import PaddedArray, axis_of, redim
from torch_google.tpu.buckets.rules import RuleCall, rule, same
from torch_google.tpu.buckets.sizes import Dim, Extent, SizeScope


@rule(
    "aten::_reshape_alias",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::squeeze",
    "aten::squeeze_copy",
    "aten::squeeze_copy.dim",
    "aten::squeeze_copy.dims",
    "aten::unsqueeze_copy",
    "aten::_reshape_copy",
    "aten::squeeze.dim",
    "aten::squeeze.dims",
    "aten::unsqueeze",
    "aten::view",
    "aten::view_copy",
)
def view(call: RuleCall) -> Any:
    x = call.args[0]
    return [reshaped(call.scope, x, call.metas[0].shape)]


def reshaped(scope: SizeScope, x: PaddedArray, sizes: Iterable[Any]) -> PaddedArray:
    """Reshape an array, keeping the non-padding elements in row-major order."""
    target_sizes = [scope.expr(size) for size in sizes]
    dims = _regrouped([extent for dim in x.dims for extent in dim], target_sizes)
    if dims is None:
        return redim(scope, x, scope.dims(target_sizes))
    shape = [_width(dim) for dim in dims]
    return PaddedArray(x.array.reshape(shape), dims, x.uniform)


@rule("aten::permute", "aten::permute_copy")
def permute(call: RuleCall) -> Any:
    x, order = call.args
    axes = [axis_of(x, axis) for axis in order]
    return [_permuted(x, axes)]


@rule("aten::transpose.int", "aten::transpose_copy.int")
def transpose(call: RuleCall) -> Any:
    x, first, second = call.args
    axes = list(range(len(x.dims)))
    if axes:
        first, second = axis_of(x, first), axis_of(x, second)
        axes[first], axes[second] = second, first
    return [_permuted(x, axes)]


@rule("aten::t", "aten::t_copy")
def t(call: RuleCall) -> Any:
    x = call.args[0]
    return [_permuted(x, list(range(len(x.dims)))[::-1])]


@rule("aten::expand", "aten::expand_copy")
def expand(call: RuleCall) -> Any:
    x = call.args[0]
    sizes = call.metas[0].shape
    lead = len(sizes) - len(x.dims)
    dims = [
        x.dims[axis - lead] if axis >= lead and x.dims[axis - lead] != () else call.scope.dim(size)
        for axis, size in enumerate(sizes)
    ]
    shape = tuple(_width(dim) for dim in dims)
    return [PaddedArray(jnp.broadcast_to(x.array, shape), tuple(dims), x.uniform)]


@rule("aten::repeat")
def repeat(call: RuleCall) -> Any:
    x, times = call.args
    lead = len(times) - len(x.dims)
    array = x.array.reshape([1] * lead + list(x.array.shape))
    own = ((),) * lead + x.dims
    dims: list[Dim] = []
    spread: list[int] = []
    shape: list[int] = []
    for axis, count in enumerate(times):
        size = array.shape[axis]
        # A repeated dimension is a product whose outer extent is the number of repeats.
        repeats = (call.scope.extent(_size_of(count, call, axis, own)),)
        dims.append((*repeats, *own[axis]))
        shape += [1, size]
        spread += [repeats[0].size, size]
    repeated = jnp.broadcast_to(array.reshape(shape), spread)
    return [PaddedArray(repeated.reshape([_width(dim) for dim in dims]), tuple(dims), x.uniform)]


@rule("aten::flip")
def flip(call: RuleCall) -> Any:
    x, axes = call.args
    array = x.array
    for axis in (axis_of(x, axis) for axis in axes):
        dim = x.dims[axis]
        if any(extent.padded for extent in dim):
            x = redim(call.scope, same(x, array), _single(call.scope, x.dims, axis))
            array = x.array
            size = jnp.asarray(call.scope.real(x.dims[axis]))
            array = jnp.take(array, size - 1 - jnp.arange(array.shape[axis]), axis, mode="clip")
        else:
            array = jnp.flip(array, axis)
    return [same(x, array)]


def _single(scope: SizeScope, dims: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    """Return `dims` with the factors of dimension `axis` merged into one, their product."""
    expr = sympy.Mul(*(extent.expr for extent in dims[axis]))
    return (*dims[:axis], scope.dim(expr), *dims[axis + 1 :])


def leading(scope: SizeScope, x: PaddedArray, axis: int) -> PaddedArray:
    """Return x with the padding of one dimension moved to the dimension's end."""
    if len(x.dims[axis]) <= 1:
        return x
    return redim(scope, x, _single(scope, x.dims, axis))


def _size_of(count: Any, call: RuleCall, axis: int, own: Sequence[Dim]) -> sympy.Expr:
    if isinstance(count, int):
        return sympy.Integer(count)
    total = call.scope.expr(call.metas[0].shape[axis])
    return sympy.cancel(total / sympy.Mul(*(extent.expr for extent in own[axis])))


def _permuted(x: PaddedArray, axes: Sequence[int]) -> PaddedArray:
    return PaddedArray(x.array.transpose(axes), tuple(x.dims[axis] for axis in axes), x.uniform)


def _width(dim: Dim) -> int:
    width = 1
    for extent in dim:
        width *= extent.size
    return width


def _regrouped(extents: Sequence[Extent], sizes: Sequence[sympy.Expr]) -> tuple[Dim, ...] | None:
    """Group extents (factors) into dimensions of the given sizes, splitting them if necessary.

    The order of the extents does not change. Returns None if such a grouping is impossible.
    """
    rest = list(reversed(extents))
    dims: list[Dim] = []
    for size in sizes:
        dim: list[Extent] = []
        remaining = size
        while remaining != 1:
            if not rest or remaining == 0:
                return None
            next_one = rest.pop()
            taken, leftover = _split(next_one, remaining)
            if taken is None:
                return None
            dim.append(taken)
            if leftover is not None:
                rest.append(leftover)
            remaining = sympy.cancel(remaining / taken.expr)
        dims.append(tuple(dim))
    return None if rest else tuple(dims)


def _split(extent: Extent, target: sympy.Expr) -> tuple[Extent | None, Extent | None]:
    """Split an extent into a part for a dimension of size `target`, and the rest.

    The rest is for the next dimension, and is None if the first part uses the whole extent. The
    first part is None if the extent cannot be split in this way.
    """
    if extent.expr == target:
        return extent, None
    if extent.expr == 0:
        return None, None
    times = sympy.cancel(target / extent.expr)
    if _is_whole(times):
        return extent, None
    inner = sympy.cancel(extent.expr / target)
    if inner.is_Integer and inner > 0 and extent.size % int(inner) == 0:
        return Extent(target, extent.size // int(inner)), Extent(inner, int(inner))
    return None, None


def _is_whole(expr: sympy.Expr) -> bool:
    """Return whether an expression is a polynomial with integer coefficients."""
    numerator, denominator = sympy.fraction(expr)
    if denominator != 1:
        return False
    return all(c.is_Integer for c in numerator.as_coefficients_dict().values())
