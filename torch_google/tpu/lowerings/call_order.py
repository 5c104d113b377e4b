# SPDX-License-Identifier: Apache-2.0
"""The order of a program's collectives: a token that each of them takes and returns.

XLA may run independent calls in any order, or at the same time. Ranks would then wait for each
other in different collectives. A token makes every call depend on the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp


class CallOrder:
    """The calls of one program so far. `token` is the last call's, or the program's first one."""

    def __init__(self) -> None:
        self.token: jax.Array = jnp.zeros(1, jnp.uint8)

    def append(self, call: Callable[[jax.Array], Sequence[Any]]) -> list[Any]:
        """Run `call`, which takes a token and returns results and a token. Return the results."""
        *results, self.token = call(self.token)
        return results


_current: ContextVar[CallOrder | None] = ContextVar("_current", default=None)


@contextmanager
def call_order(order: CallOrder | None) -> Iterator[None]:
    """Trace a program, or a part of one, whose collectives run in this order.

    None refuses collectives: a loop or a branch may run a call any number of times.
    """
    previous = _current.set(order)
    try:
        yield
    finally:
        _current.reset(previous)


def current_order(name: str) -> CallOrder:
    """Return the order of the traced program. `name` is the operator, for the error if none."""
    order = _current.get()
    if order is None:
        raise NotImplementedError(
            f"tpu: {name}: a collective can be in a graph of torch.compile, but not in a branch, a "
            "loop or an exported program. Move it out of there"
        )
    return order
