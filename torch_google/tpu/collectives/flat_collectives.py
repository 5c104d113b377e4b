# SPDX-License-Identifier: Apache-2.0
"""Collectives, implemented as XLA operations on flat arrays for each rank of a mesh.

Each rank has one device on the mesh's axis. All ranks run the same program, so the arguments of a
flat collective have the same lengths on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

AXIS = "ranks"


@dataclass(frozen=True)
class FlatCollective:
    """A collective on flat arrays. Every field has the same value on all ranks.

    `reduction` is the name of a torch ReduceOp, or "" if the collective does not reduce. `root` is
    a rank in the group, or -1 if the collective has no root.
    """

    name: str
    reduction: str
    root: int
    ranks: int

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run the collective on this rank's arrays, as part of a program over the mesh."""
        return [_FLAT_COLLECTIVES[self.name](self, array) for array in arrays]

    def results(self, arrays: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
        """Return the lengths and dtypes of the results for the given arguments."""
        parts = self.ranks if self.name in ("scatter", "reduce_scatter") else 1
        copies = self.ranks if self.name == "gather" else 1
        return [jax.ShapeDtypeStruct((each.size * copies // parts,), each.dtype) for each in arrays]


def _reduce(collective: FlatCollective, array: Any) -> Any:
    numbers, reduction = _numbers(array, collective.reduction)
    if reduction in _ALL_REDUCE:
        total = _ALL_REDUCE[reduction](numbers, AXIS)
    else:
        total = _combined(jax.lax.all_gather(numbers, AXIS), reduction)
    return _completed(total, array.dtype, collective)


def _reduce_scatter(collective: FlatCollective, array: Any) -> Any:
    numbers, reduction = _numbers(array, collective.reduction)
    if reduction == "SUM":
        part = jax.lax.psum_scatter(numbers, AXIS, tiled=True)
    else:
        rows = jax.lax.all_to_all(numbers.reshape(collective.ranks, -1), AXIS, 0, 0, tiled=True)
        part = _combined(rows, reduction)
    return _completed(part, array.dtype, collective)


def _gather(_: FlatCollective, array: Any) -> Any:
    return jax.lax.all_gather(array, AXIS, tiled=True)


def _exchange(collective: FlatCollective, array: Any) -> Any:
    rows = array.reshape(collective.ranks, -1)
    return jax.lax.all_to_all(rows, AXIS, 0, 0, tiled=True).reshape(-1)


def _broadcast(collective: FlatCollective, array: Any) -> Any:
    return _restored(jax.lax.psum(_only_from_root(collective, array), AXIS), array.dtype)


def _scatter(collective: FlatCollective, array: Any) -> Any:
    masked = _only_from_root(collective, array)
    return _restored(jax.lax.psum_scatter(masked, AXIS, tiled=True), array.dtype)


_FLAT_COLLECTIVES: dict[str, Callable[[FlatCollective, Any], Any]] = {
    "broadcast": _broadcast,
    "exchange": _exchange,
    "gather": _gather,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "scatter": _scatter,
}
_ALL_REDUCE: dict[str, Callable[[Any, str], Any]] = {
    "MAX": jax.lax.pmax,
    "MIN": jax.lax.pmin,
    "SUM": jax.lax.psum,
}
# The combining function and the identity element for each reduction that XLA's collectives lack.
# For these reductions, each rank combines the values of all ranks.
_COMBINE: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "BAND": (jax.lax.bitwise_and, lambda dtype: jnp.array(-1).astype(dtype)),
    "BOR": (jax.lax.bitwise_or, lambda dtype: jnp.array(0, dtype)),
    "BXOR": (jax.lax.bitwise_xor, lambda dtype: jnp.array(0, dtype)),
    "PRODUCT": (jax.lax.mul, lambda dtype: jnp.array(1, dtype)),
    "MAX": (jax.lax.max, lambda dtype: _limits(dtype).min),
    "MIN": (jax.lax.min, lambda dtype: _limits(dtype).max),
}
# Bools are reduced as the integers 0 and 1, with these equivalent reductions.
_OF_BOOLS = {"SUM": "MAX", "BOR": "MAX", "PRODUCT": "MIN", "BAND": "MIN"}


def _numbers(array: Any, reduction: str) -> tuple[Any, str]:
    """Return the array in a dtype that XLA can reduce, and the reduction to apply to that dtype."""
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint8), _OF_BOOLS.get(reduction, reduction)
    if reduction in ("AVG", "PREMUL_SUM"):
        reduction = "SUM"
    if array.dtype.itemsize == 1 and jnp.issubdtype(array.dtype, jnp.floating):
        return array.astype(jnp.float32), reduction
    return array, reduction


def _combined(rows: Any, reduction: str) -> Any:
    combine, initial = _COMBINE[reduction]
    return jax.lax.reduce(rows, initial(rows.dtype), combine, (0,))


def _completed(total: Any, dtype: Any, collective: FlatCollective) -> Any:
    if collective.reduction == "AVG":
        total = total / jnp.array(collective.ranks, total.dtype)
    return total.astype(dtype)


def _limits(dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.floating):
        # The largest finite number is not an identity element, because it would replace infinities.
        infinity = jnp.array(jnp.inf, dtype)
        return _Limits(-infinity, infinity)
    info = jnp.iinfo(dtype)
    return _Limits(jnp.array(info.min, dtype), jnp.array(info.max, dtype))


@dataclass(frozen=True)
class _Limits:
    min: Any
    max: Any


def _only_from_root(collective: FlatCollective, array: Any) -> Any:
    """On the root, return the array; on other ranks, return zeros, which do not change a sum.

    For floating-point numbers, these are -0.0, because adding 0.0 would turn -0.0 into 0.0.
    """
    if array.dtype == jnp.bool_:
        array = array.astype(jnp.uint8)
    elif array.dtype.itemsize == 1:
        array = jax.lax.bitcast_convert_type(array, jnp.uint8)
    inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    neutral = -jnp.zeros((), array.dtype) if inexact else jnp.zeros((), array.dtype)
    return jnp.where(jax.lax.axis_index(AXIS) == collective.root, array, neutral)


def _restored(array: Any, dtype: Any) -> Any:
    if dtype == jnp.bool_:
        return array.astype(jnp.bool_)
    return array if array.dtype == dtype else jax.lax.bitcast_convert_type(array, dtype)
