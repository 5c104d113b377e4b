# SPDX-License-Identifier: Apache-2.0
"""Matmuls. Padding in the contracted dimension of both operands is set to zero."""

from __future__ import annotations

from typing import Any

import jax

from torch_google.tpu.buckets.padded_array import PaddedArray, filled, redim
from torch_google.tpu.buckets.pointwise import aligned
from torch_google.tpu.buckets.rules import RuleCall, rule
from torch_google.tpu.buckets.sizes import Dim, SizeScope


@rule("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::vdot", "aten::mm.dtype")
def product(call: RuleCall) -> Any:
    a, b, *others = call.args
    dims, left, right = _factors(call.scope, a, b)
    return [PaddedArray(call.lower(left, right, *others, **call.kwargs)[0], dims)]


@rule("aten::addmm", "aten::addmv", "aten::baddbmm")
def add_product(call: RuleCall) -> Any:
    c, a, b = call.args[:3]
    dims, left, right = _factors(call.scope, a, b)
    added = _spread(call.scope, c, dims)
    return [PaddedArray(call.lower(added, left, right, *call.args[3:], **call.kwargs)[0], dims)]


def _factors(
    scope: SizeScope, a: PaddedArray, b: PaddedArray
) -> tuple[tuple[Dim, ...], jax.Array, jax.Array]:
    """Return the dimensions of a matmul's result, and its two operands, ready to be multiplied."""
    batch = len(a.dims) - 2 if len(b.dims) > 2 else 0
    inner = b.dims[-2] if len(b.dims) > 1 else b.dims[-1]
    if a.dims[-1] != inner or a.dims[:batch] != b.dims[:batch]:
        shared = a.dims[-1] if len(a.dims[-1]) >= len(inner) else inner
        a = redim(scope, a, (*a.dims[:-1], shared))
        axis = len(b.dims) - 2 if len(b.dims) > 1 else 0
        b = redim(scope, b, (*a.dims[:batch], *b.dims[batch:axis], shared, *b.dims[axis + 1 :]))
    left = filled(scope, a, [len(a.dims) - 1], 0)
    right = filled(scope, b, [max(len(b.dims) - 2, 0)], 0)
    rows = a.dims[:-1]
    columns = b.dims[-1:] if len(b.dims) > 1 else ()
    return (*rows, *columns), left, right


def _spread(scope: SizeScope, c: PaddedArray, dims: tuple[Dim, ...]) -> jax.Array:
    """Return the addend `c`, padded so that it broadcasts against the product."""
    lead = len(dims) - len(c.dims)
    target_dims = tuple(() if own == () else dims[lead + axis] for axis, own in enumerate(c.dims))
    return redim(scope, c, target_dims).array


@rule("aten::addr", "aten::ger")
def outer(call: RuleCall) -> Any:
    a, b = call.args[-2:]
    dims = (*a.dims, *b.dims)
    if len(call.args) == 2:
        return [PaddedArray(call.lower(a, b)[0], dims)]
    return [
        PaddedArray(
            call.lower(_spread(call.scope, call.args[0], dims), a, b, **call.kwargs)[0], dims
        )
    ]


@rule("aten::linalg_cross")
def cross(call: RuleCall) -> Any:
    a, b, *others = call.args
    dims, alike = aligned(call.scope, [a, b])
    return [PaddedArray(call.lower(*alike, *others, **call.kwargs)[0], dims)]
