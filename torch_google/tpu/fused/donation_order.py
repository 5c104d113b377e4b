# SPDX-License-Identifier: Apache-2.0
"""Orders the write to a donated buffer after all reads of its old value, to avoid a copy.

For example, a backward pass multiplies a gradient by a weight. The optimizer computes the weight's
next value, which does not depend on that product. XLA:CPU inserts copies before it schedules
operations, so it would copy the weight in case the product is computed after the write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from torch_google.tpu.eager import CompiledOp

# A program and the source of each of its inputs: a slot (the result of an earlier step), or
# ~external (a value from outside the trace).
Step = tuple[CompiledOp, tuple[int, ...]]

# Operations that only rearrange elements, so a read of the result counts as a read of the operand.
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
    """Finds the steps that read a tensor's donated old value but do not affect its next value."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._first_slots: list[int] = []
        self._step_of: list[int] = []
        # For each step, a bit set of the step itself and all steps on which it depends.
        self._before: list[int] = []
        self._readers: dict[int, list[int]] = {}
        for index, (compiled, wires) in enumerate(steps):
            self._first_slots.append(len(self._step_of))
            self._step_of += [index] * len(compiled.jaxpr.out_avals)
            before = 1 << index
            for wire in wires:
                if wire >= 0:
                    before |= self._before[self._step_of[wire]]
                self._readers.setdefault(wire, []).append(index)
            self._before.append(before)

    def of(self, external: int, slot: int) -> list[int]:
        """Return one result of each step that reads `external` but does not affect `slot`."""
        before = self._before[self._step_of[slot]]
        return [
            self._first_slots[index]
            for index in dict.fromkeys(self._reading(~external))
            if not before >> index & 1
        ]

    def _reading(self, wire: int) -> Iterator[int]:
        for index in self._readers.get(wire, ()):
            compiled, _ = self._steps[index]
            results = len(compiled.jaxpr.out_avals)
            if _is_layout(compiled.jaxpr.jaxpr):
                for slot in range(self._first_slots[index], self._first_slots[index] + results):
                    yield from self._reading(slot)
            elif results:
                yield index


_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def behind(value: jax.Array, reads: Sequence[jax.Array]) -> jax.Array:
    """Return `value` with the same bits, but computed after all of `reads`.

    Each read yields a 0, which is subtracted from the value's bits as an integer. A floating-point
    subtraction could flush a denormal to zero, as XLA does in some threads. The 0 comes from two
    shifts that clear all 32 bits, which XLA's simplifier does not notice. A `value` whose
    dtype is not floating-point is returned unchanged.
    """
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    bits = lax.bitcast_convert_type(value, _UNSIGNED[value.dtype.itemsize])
    for read in reads:
        if read.size:
            one = lax.slice(read, (0,) * read.ndim, (1,) * read.ndim).reshape(())
            bits = bits - _zero_of(one).astype(bits.dtype)
    return lax.bitcast_convert_type(bits, value.dtype)


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
