# SPDX-License-Identifier: Apache-2.0
"""Constant, reflection and replication padding, and the gradients of the last two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from torch_google.tpu.dtypes import to_torch
from torch_google.tpu.lowerings.promotion import Array, Operand, convert
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::constant_pad_nd")
def constant_pad_nd(self: Array, pad: Sequence[int], value: Operand = 0) -> Array:
    """Pad by the widths in `pad`, which start with the last dimension. Negative widths crop."""
    widths = _widths(self, pad)
    return lax.pad(
        self,
        convert(value, to_torch(self.dtype)),
        [(before, after, 0) for before, after in widths],
    )


def _widths(x: Array, pad: Sequence[int]) -> list[tuple[int, int]]:
    pairs = [(pad[start], pad[start + 1]) for start in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def _padded(mode: str) -> Callable[[Array, Sequence[int]], Array]:
    def lower(self: Array, padding: Sequence[int]) -> Array:
        widths = _widths(self, padding)
        grown = [(max(before, 0), max(after, 0)) for before, after in widths]
        padded = jnp.pad(self, grown, mode=mode)
        starts = [max(-before, 0) for before, _ in widths]
        ends = [
            size - max(-after, 0) for size, (_, after) in zip(padded.shape, widths, strict=True)
        ]
        return lax.slice(padded, starts, ends)

    return lower


def _backward(
    forward: Callable[[Array, Sequence[int]], Array],
) -> Callable[[Array, Array, Sequence[int]], Array]:
    def lower(grad_output: Array, self: Array, padding: Sequence[int]) -> Array:
        grad = grad_output
        _, transposed = jax.vjp(lambda x: forward(x, padding), jnp.zeros(self.shape, grad.dtype))
        return transposed(grad)[0]

    return lower


for _name, _mode in (("reflection", "reflect"), ("replication", "edge")):
    for _rank in (1, 2, 3):
        _forward = _padded(_mode)
        lowering(f"aten::{_name}_pad{_rank}d")(_forward)
        lowering(f"aten::{_name}_pad{_rank}d_backward")(_backward(_forward))
