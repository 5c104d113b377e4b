# SPDX-License-Identifier: Apache-2.0
"""The one table of lowerings: what an operator of torch is in JAX, for eager, compile and export.

A lowering is called with the operator's arguments as its schema has them: tensors as jax arrays (or
tracers), numbers as Python numbers or as traced scalars, dtypes as torch's. `device`, `layout`,
`pin_memory`, `non_blocking`, `memory_format` and `generator` are left out by the caller. It returns
jax arrays (a tuple for several results) of the right shape; the caller casts each to the dtype that
torch's meta kernel gives, so a lowering computes in whatever dtype is right and promotes by torch's
rules where that matters. It is pure: an in-place or out= variant is made from the functional one by
the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Lowering:
    """`random`: the function takes a keyword `key`, a fresh JAX random key for each execution.

    `host_shape`: the shape of a result depends on values, so it runs outside of a program: on
    concrete arrays, by itself. Where that depends on the arguments, a function of these, which looks
    at shapes and dtypes only, says so: tensors are torch's or jax arrays.
    """

    name: str
    function: Callable[..., Any]
    random: bool = False
    host_shape: bool | Callable[..., bool] = False

    def on_host(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Say whether a call with such arguments has results whose shape depends on values."""
        if isinstance(self.host_shape, bool):
            return self.host_shape
        return self.host_shape(*args, **kwargs)


_TABLE: dict[str, Lowering] = {}


def lowering(
    *names: str,
    random: bool = False,
    host_shape: bool | Callable[..., bool] = False,
    meta: Callable[..., Any] | None = None,
) -> Callable[[_F], _F]:
    """Register a function for operators such as `aten::add.Tensor`, `aten::mm` (default overload).

    A name that the table already has raises ValueError: an operator is lowered in one place. That
    place may come again, as a module does whose import was interrupted.
    """

    def register(function: _F) -> _F:
        for name in names:
            if name in _TABLE and _place(_TABLE[name].function) != _place(function):
                raise ValueError(
                    f"{function.__module__}: '{name}' is lowered in "
                    f"{_TABLE[name].function.__module__} already. Keep one of them"
                )
            _TABLE[name] = Lowering(name, function, random, host_shape)
        return function

    return register


def find(op: torch._ops.OpOverload) -> Lowering | None:
    """Return the lowering of an operator, or None."""
    return _TABLE.get(name_of(op))


def name_of(op: torch._ops.OpOverload) -> str:
    """Return the name of an operator in the table: `aten::add.Tensor`, `aten::mm`."""
    return op.name()


def is_pinned(op: torch._ops.OpOverload) -> bool:
    """Say whether the versions of torch and of this package tell what an operator is in JAX.

    They do not where somebody else has registered the lowering: the same name may mean another
    program tomorrow, and a cache of programs has to look at what it is. Who registers one loads the
    table first, so that a row which is not there yet is ours.
    """
    found = find(op)
    if found is None:
        return op.namespace in ("aten", "prims", "torch_google")
    return _is_ours(found)


def foreign() -> frozenset[str]:
    """Return the names whose lowering somebody else has registered."""
    return frozenset(name for name, row in _TABLE.items() if not _is_ours(row))


def names() -> frozenset[str]:
    """Return every name in the table."""
    return frozenset(_TABLE)


def _is_ours(row: Lowering) -> bool:
    return str(row.function.__module__).startswith(f"{__package__}.")


def _place(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return where a function is written, or the function itself where nothing says."""
    code = getattr(function, "__code__", None)
    return (function,) if code is None else (code.co_filename, code.co_firstlineno)
