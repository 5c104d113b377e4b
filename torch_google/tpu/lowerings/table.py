# SPDX-License-Identifier: Apache-2.0
"""The table of lowerings from torch operators to JAX, for eager mode, torch.compile and export.

A lowering is called with the arguments in the order of the operator's schema: tensors as jax arrays
or tracers, numbers as Python numbers or traced scalars, dtypes as torch dtypes. The caller drops
`device`, `layout`, `pin_memory`, `non_blocking`, `memory_format` and `generator`. A lowering
returns a jax array with the right shape, or a tuple of such arrays. The caller casts each array to
the dtype that torch's meta kernel reports, so a lowering may compute in any dtype. It applies
torch's type promotion only if promotion affects the result. Lowerings are pure: the caller derives
in-place and out= variants from the functional operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Lowering:
    """A lowering and its options.

    If `random` is set, the function takes a keyword argument `key`: a new JAX random key for each
    execution.

    If `host_shape` is True, the shape of a result depends on tensor values, so the function runs
    outside a program, on concrete arrays. `host_shape` may also be a predicate on the operator's
    arguments. The predicate reads only shapes and dtypes, so tensors may be torch tensors or jax
    arrays.
    """

    name: str
    function: Callable[..., Any]
    random: bool = False
    host_shape: bool | Callable[..., bool] = False

    def on_host(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether the shape of a result depends on tensor values, given these arguments."""
        if isinstance(self.host_shape, bool):
            return self.host_shape
        return self.host_shape(*args, **kwargs)


_TABLE: dict[str, Lowering] = {}

# The namespaces of torch's functional collectives, and the operators in them that transfer no data.
_COLLECTIVES = ("_c10d_functional", "_dtensor")
_LOCAL = frozenset({"wait_tensor", "_wrap_tensor_autograd"})


def lowering(
    *names: str,
    random: bool = False,
    host_shape: bool | Callable[..., bool] = False,
    meta: Callable[..., Any] | None = None,
) -> Callable[[_F], _F]:
    """Register a function as the lowering of operators such as `aten::add.Tensor`.

    `aten::mm` refers to the default overload. Raises ValueError if an operator already has a
    different lowering. Registering the same function again is allowed, because Python runs a module
    again if its first import was interrupted.
    """

    def register(function: _F) -> _F:
        for name in names:
            if name in _TABLE and _place(_TABLE[name].function) != _place(function):
                raise ValueError(
                    f"{function.__module__}: '{name}' is already lowered in "
                    f"{_TABLE[name].function.__module__}. Keep one of them"
                )
            _TABLE[name] = Lowering(name, function, random, host_shape)
        return function

    return register


def find(op: torch._ops.OpOverload) -> Lowering | None:
    """Return the lowering of an operator, or None if it has none."""
    return _TABLE.get(name_of(op))


def name_of(op: torch._ops.OpOverload) -> str:
    """Return the name of an operator in the table: `aten::add.Tensor`, `aten::mm`."""
    return op.name()


def is_pinned(op: torch._ops.OpOverload) -> bool:
    """Return whether the versions of torch and this package determine an operator's lowering.

    The result is False if another package registered the lowering: its code may change under the
    same name, so a program's cache key must include the code. Registering a lowering loads our
    table first, so an operator without a lowering cannot belong to another package.
    """
    row = find(op)
    if row is None:
        return op.namespace in ("aten", "prims", "torch_google", *_COLLECTIVES)
    return _is_ours(row)


def is_collective(op: Any) -> bool:
    """Return whether an operator exchanges data, so that all processes must call it."""
    is_operator = isinstance(op, torch._ops.OpOverload) and op.namespace in _COLLECTIVES
    return is_operator and op._schema.name.partition("::")[2] not in _LOCAL


def foreign() -> frozenset[str]:
    """Return the names of operators whose lowerings were registered by another package."""
    return frozenset(name for name, row in _TABLE.items() if not _is_ours(row))


def names() -> frozenset[str]:
    """Return the names of all operators in the table."""
    return frozenset(_TABLE)


def _is_ours(row: Lowering) -> bool:
    return str(row.function.__module__).startswith(f"{__package__}.")


def _place(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the source location of a function, or the function itself if it has none."""
    code = getattr(function, "__code__", None)
    return (function,) if code is None else (code.co_filename, code.co_firstlineno)
