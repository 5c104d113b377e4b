# SPDX-License-Identifier: Apache-2.0
"""Computes the values that a program writes into an array before it writes any of them.

A program that donates an array may write into it in place. XLA:CPU would often fuse the write with
the computation of the written values. If that computation reads the array, XLA then copies the
whole array first, so that no element is overwritten before it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jax import lax

from torch_google.tpu.lowerings.replay import replaying, run

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, JaxprEqn

# Primitives that replace some elements of their first operand.
_WRITES = frozenset({"dynamic_update_slice", "scatter", "scatter-add", "scatter_add"})


def fenced(program: ClosedJaxpr) -> Callable[..., tuple[Any, ...]]:
    """Return a function with the same values, in which a barrier precedes each write."""

    def replace(eqn: JaxprEqn, operands: list[Any]) -> Sequence[Any] | None:
        if eqn.primitive.name not in _WRITES:
            return None
        target, *others = operands
        return run(eqn, [target, *lax.optimization_barrier(others)])

    return replaying(program, replace)
