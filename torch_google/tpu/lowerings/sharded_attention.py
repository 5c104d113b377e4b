# SPDX-License-Identifier: Apache-2.0
"""Divides an attention kernel's work among the devices of a mesh.

Batch entries and heads are independent, so each device runs the kernel on its own. Axes that shard
a sequence divide the rows, which are the queries, because rows are independent as well. Keys and
values are then gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.partitioned_call import (
    Axes,
    Plan,
    Signature,
    partitioned_call,
)

# The dimensions: b is the batch, h a head, r a row (a query), k a key, and d head_dim.
_QUERIES, _KEYS, _SUMS = "bhrd", "bhkd", "bhr"
_FORWARD = Signature((_QUERIES, _KEYS, _KEYS), (_QUERIES, _SUMS), whole="kd")
_BACKWARD = Signature(
    (_QUERIES, _KEYS, _KEYS, _QUERIES, _QUERIES, _SUMS), (_QUERIES, _KEYS, _KEYS), whole="kd"
)

Attention = Callable[..., Sequence[jax.Array]]
"""Attention on one device. The keyword argument `first_row` is the position of its first row among
all rows, or None if the device has all rows."""


def forward(q: jax.Array, k: jax.Array, v: jax.Array, *, name: str, attend: Attention) -> Any:
    """Return the output and the log-sum-exp of each row, both in float32.

    All arrays must have the same number of heads. `name` must identify `attend`.
    """
    out, sums = _float32(q.shape), _float32(q.shape[:-1])
    return partitioned_call(
        q,
        k,
        v,
        name=f"attention {name}",
        signature=_FORWARD,
        planner=lambda mesh, sizes, arrays: _plan(attend, mesh, sizes, arrays),
        results=(out, sums),
    )


def backward(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    grad: jax.Array,
    out: jax.Array,
    log_sums: jax.Array,
    *,
    name: str,
    differentiate: Attention,
) -> Any:
    """Return the gradients of q, k and v in float32, under the same conditions as `forward`."""

    def planner(mesh: Mapping[str, int], sizes: Mapping[str, int], arrays: Sequence[Axes]) -> Plan:
        plan = _plan(differentiate, mesh, sizes, arrays)
        if not (rows := plan.axes["r"]):
            return plan

        def add_rows(*values: jax.Array) -> Sequence[jax.Array]:
            to_q, to_k, to_v = plan.function(*values)
            return to_q, jax.lax.psum(to_k, rows), jax.lax.psum(to_v, rows)

        return Plan(add_rows, plan.axes)

    return partitioned_call(
        q,
        k,
        v,
        grad,
        out,
        log_sums,
        name=f"attention backward {name}",
        signature=_BACKWARD,
        planner=planner,
        results=[_float32(each.shape) for each in (q, k, v)],
    )


def _float32(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _plan(
    function: Attention,
    mesh: Mapping[str, int],
    sizes: Mapping[str, int],
    arrays: Sequence[Axes],
) -> Plan:
    axes = divided(mesh, sizes, arrays)
    rows = axes["r"]
    on_each = sizes["r"] // math.prod(mesh[axis] for axis in rows)

    def part(*values: jax.Array) -> Sequence[jax.Array]:
        # The index along `rows` is the number of this device's block of rows.
        first = jax.lax.axis_index(rows) * on_each if rows else None
        return function(*values, first_row=first)

    return Plan(part, axes)


def divided(mesh: Mapping[str, int], sizes: Mapping[str, int], arrays: Sequence[Axes]) -> Axes:
    """Return the axes that divide the batch (b), the heads (h) and the rows (r).

    An axis that shards the batch of an array divides the batch; any other axis that shards heads
    divides the heads. Any other axis that shards rows or keys divides the rows. For all other axes,
    the order is batch, heads, rows, because a device with some of the rows needs all keys and
    values. An axis that shards no array divides batch or heads, because devices along it would
    compute the same, unless no array is sharded at all. An axis is left out if it does not divide a
    dimension evenly.
    """
    axes: dict[str, list[str]] = {"b": [], "h": [], "r": []}
    remaining = dict(sizes)

    def divide(dimension: str, axis: str) -> None:
        used = any(axis in each for each in axes.values())
        if not used and remaining[dimension] % mesh[axis] == 0:
            axes[dimension].append(axis)
            remaining[dimension] //= mesh[axis]

    for dimension in ("b", "h"):
        for array in arrays:
            for axis in array.get(dimension, ()):
                divide(dimension, axis)
    for array in arrays:
        for axis in (*array.get("r", ()), *array.get("k", ())):
            divide("r", axis)
    sharding = dict.fromkeys(axis for array in arrays for each in array.values() for axis in each)
    for axis in sharding:
        for dimension in ("b", "h", "r"):
            divide(dimension, axis)
    for axis in mesh if sharding else ():
        if axis not in sharding:
            divide("b", axis)
            divide("h", axis)
    return {dimension: tuple(each) for dimension, each in axes.items()}
