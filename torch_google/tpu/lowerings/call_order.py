# SPDX-License-Identifier: Apache-2.0
"""Keeps a program's collectives in order, with a token that each call takes and returns.

XLA may run independent calls in any order, or concurrently. Ranks could then wait for each other in
different collectives. The token makes each call depend on the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp


class CallOrder:
    """The order of a program's collectives. `token` is the last call's token, initially zeros."""

    def __init__(self) -> None:
        self.token: jax.Array = jnp.zeros(1, jnp.uint8)

    def append(self, call: Callable[[jax.Array], Sequence[Any]]) -> list[Any]:
        """Run `call` with the token, store the token it returns, and return its other results."""
        *results, self.token = call(self.token)
        return results


_current: ContextVar[CallOrder | None] = ContextVar("_current", default=None)


@contextmanager
def call_order(order: CallOrder | None) -> Iterator[None]:
    """Add the collectives that are traced inside this context to `order`.

    If `order` is None, collectives raise an error. Use None for loops and branches, which may run a
    call any number of times.
    """
    previous = _current.set(order)
    try:
        yield
    finally:
        _current.reset(previous)


def current_order(name: str) -> CallOrder:
    """Return the current order. If there is none, raise an error that names the operator."""
    order = _current.get()
    if order is None:
        raise NotImplementedError(
            f"tpu: {name}: a collective can be in a graph of torch.compile, but not in a branch, a "
            "loop or an exported program. Move it out of there"
        )
    return order
