# SPDX-License-Identifier: Apache-2.0
"""What reads a tensor of a trace after it was written, as XLA sees it: orders the write behind it.

A backward pass takes the product of a gradient and a weight, and the optimizer writes the weight's
next value, which does not depend on that product. XLA for the CPU inserts copies before it knows the order
of its operations, so it copies the weight, lest the product read what is written into its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from torch_google.tpu.eager import CompiledOp

# A program of an operator, and where its inputs come from: a slot, or ~external.
Step = tuple[CompiledOp, tuple[int, ...]]

# What of a program's operations computes nothing: it is read where its result is.
_LAYOUT = {
    "broadcast_in_dim",
    "copy",
    "expand_dims",
    "reshape",
    "rev",
    "slice",
    "squeeze",
    "transpose",
}


class DonationOrder:
    """The steps of a trace that read an external and that its next value does not depend on."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._first_slots: list[int] = []
        self._step_of: list[int] = []
        # Of each step, the steps that it depends on and itself, as bits.
        self._before: list[int] = []
        self._readers: dict[int, list[int]] = {}
        for at, (compiled, wires) in enumerate(steps):
            self._first_slots.append(len(self._step_of))
            self._step_of += [at] * len(compiled.jaxpr.out_avals)
            before = 1 << at
            for wire in wires:
                if wire >= 0:
                    before |= self._before[self._step_of[wire]]
                self._readers.setdefault(wire, []).append(at)
            self._before.append(before)

    def of(self, external: int, slot: int) -> list[int]:
        """Return a slot of each step that reads `external`, and that `slot` does not depend on."""
        before = self._before[self._step_of[slot]]
        return [
            self._first_slots[at]
            for at in dict.fromkeys(self._reading(~external))
            if not before >> at & 1
        ]

    def _reading(self, wire: int) -> Iterator[int]:
        for at in self._readers.get(wire, ()):
            compiled, _ = self._steps[at]
            results = len(compiled.jaxpr.out_avals)
            if _is_layout(compiled.jaxpr.jaxpr):
                for slot in range(self._first_slots[at], self._first_slots[at] + results):
                    yield from self._reading(slot)
            elif results:
                yield at


def behind(value: jax.Array, reads: Sequence[jax.Array]) -> jax.Array:
    """Return `value`, bit for bit, by a computation that takes a number of each of `reads`.

    What it takes is 0 and subtracted, which changes no number, -0.0 neither: no simplification of XLA's
    finds that two shifts leave nothing of 32 bits. Of what is not a floating-point number there
    is no such order.
    """
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    for read in reads:
        if read.size:
            one = lax.slice(read, (0,) * read.ndim, (1,) * read.ndim).reshape(())
            value = value - _zero_of(one).astype(value.dtype)
    return value


def _zero_of(number: jax.Array) -> jax.Array:
    if jnp.issubdtype(number.dtype, jnp.complexfloating):
        number = lax.real(number)
    if jnp.issubdtype(number.dtype, jnp.floating):
        number = lax.bitcast_convert_type(number.astype(jnp.float32), jnp.uint32)
    bits = number.astype(jnp.uint32)
    return lax.shift_right_logical(lax.shift_right_logical(bits, jnp.uint32(31)), jnp.uint32(1))


def _is_layout(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("jit", "pjit"):
            if not _is_layout(equation.params["jaxpr"].jaxpr):
                return False
        elif equation.primitive.name not in _LAYOUT:
            return False
    return True
