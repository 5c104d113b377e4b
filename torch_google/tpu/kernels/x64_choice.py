# SPDX-License-Identifier: Apache-2.0
"""Chooses whether to trace a kernel's function in JAX's x64 mode, which the device enables.

In x64 mode, JAX's indices and counters are int64. Mosaic, the compiler of Pallas kernels for TPU,
rejects int64, and some JAX code mixes int64 with int32 and cannot be traced in this mode at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax._src.config import ExplicitX64Mode, explicit_x64_dtypes
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun, subjaxprs

_PALLAS = frozenset({"pallas_call", "core_map", "mpmd_map"})

Function = Callable[[Sequence[jax.Array]], Any]


@dataclass(frozen=True)
class Choice:
    """Whether to trace a function with 64-bit types, and the trace or error that decided it.

    `x64` is True if an argument or a result has a 64-bit dtype. Otherwise, it is False if the
    function calls a Pallas kernel or cannot be traced with 64-bit types, and None if 64-bit types
    may be left enabled. If the function was traced with 64-bit types, `trace` is the trace, and
    `structure` is the structure of the results. If tracing failed, `error` is the exception.
    """

    x64: bool | None
    trace: ClosedJaxpr | None = None
    structure: Any = None
    error: Exception | None = None


def choose(function: Function, arrays: Sequence[Any]) -> Choice:
    """Choose whether to trace with 64-bit types. `arrays` may be tracers or ShapeDtypeStructs."""
    if any(is_64_bit(array) for array in arrays):
        return Choice(True)
    try:
        with enabled(True):
            trace, results = jax.make_jaxpr(function, return_shape=True)(arrays)
    except Exception as error:  # noqa: BLE001 - any error of the user's function
        return Choice(False, error=error)
    x64 = False if _uses_pallas(trace.jaxpr) else None
    if any(is_64_bit(result) for result in trace.out_avals):
        x64 = True
    return Choice(x64, trace, jax.tree.structure(results))


def evaluate(function: Function, arrays: Sequence[Any], x64: bool | None) -> Any:
    """Return the function's results. `x64` specifies whether 64-bit types are enabled.

    If `x64` is None, `choose` decides. If `choose` disables 64-bit types, but the function can be
    traced only with them, they stay enabled. If the function fails both ways, the error from its
    trace with 64-bit types is raised.
    """
    choice = choose(function, arrays) if x64 is None else Choice(x64)
    if choice.trace is not None and choice.x64 is not False:
        return _replay(choice.trace, choice.structure, arrays)
    try:
        with enabled(choice.x64 is not False):
            return function(arrays)
    except Exception:
        if choice.trace is None and choice.error is None:
            raise  # the function has no other trace to run
    if choice.trace is not None:
        return _replay(choice.trace, choice.structure, arrays)
    assert choice.error is not None
    raise choice.error


@contextmanager
def enabled(x64: bool) -> Iterator[None]:
    """Enable or disable 64-bit types for tracing. Explicit 64-bit dtypes are never truncated."""
    with jax.enable_x64(x64), explicit_x64_dtypes(ExplicitX64Mode.ALLOW):
        yield


def is_64_bit(array: Any) -> bool:
    """Return whether an array or spec has a dtype that JAX supports only in x64 mode."""
    return str(array.dtype) in {"int64", "uint64", "float64", "complex128"}


def _uses_pallas(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive.name in _PALLAS for eqn in jaxpr.eqns) or any(
        map(_uses_pallas, subjaxprs(jaxpr))
    )


def _replay(trace: ClosedJaxpr, structure: Any, arrays: Sequence[Any]) -> Any:
    """Evaluate a function's 64-bit trace on these arrays, without calling the function again."""
    with enabled(True):
        return jax.tree.unflatten(structure, jaxpr_as_fun(trace)(*arrays))
