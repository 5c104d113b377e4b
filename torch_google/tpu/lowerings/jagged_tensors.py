# SPDX-License-Identifier: Apache-2.0
"""Converts jagged tensors (rows of different lengths in one buffer) to padded ones and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from torch_google.tpu.lowerings.table import lowering


def _is_total_unknown(dense: Any, offsets: Any, total: int | None = None) -> bool:
    return total is None


@lowering("aten::_jagged_to_padded_dense_forward")
def to_padded(
    values: Array, offsets: Sequence[Array], max_lengths: Sequence[int], padding_value: Any = 0.0
) -> Array:
    begins, lengths = _rows(offsets)
    column = jnp.arange(int(max_lengths[0]))
    places = begins[:, None] + column
    rows = jnp.take(values, places, axis=0, mode="clip")
    inside = (column < lengths[:, None]).reshape(*places.shape, *[1] * (values.ndim - 1))
    return jnp.where(inside, rows, jnp.asarray(padding_value).astype(values.dtype))


@lowering("aten::_padded_dense_to_jagged_forward", host_shape=_is_total_unknown)
def to_jagged(dense: Array, offsets: Sequence[Array], total: int | None = None) -> Array:
    begins, _ = _rows(offsets)
    size = int(offsets[0][-1]) if total is None else int(total)
    places = jnp.arange(size)
    row = jnp.searchsorted(begins, places, side="right") - 1
    return dense[row, places - begins[row]]


def _rows(offsets: Sequence[Array]) -> tuple[Array, Array]:
    if len(offsets) != 1:
        raise NotImplementedError(
            f"tpu: jagged tensors have one ragged dimension, not {len(offsets)}. Pad the inner ones"
        )
    return offsets[0][:-1], jnp.diff(offsets[0])
