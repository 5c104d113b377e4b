# SPDX-License-Identifier: Apache-2.0
"""Runs a JAX program equation by equation, but computes some equations differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

# A function that takes an equation and its operands. It returns the equation's results, or None to
# leave the equation unchanged.
Replacement = Callable[[JaxprEqn, list[Any]], Sequence[Any] | None]


def replaying(program: ClosedJaxpr, replace: Replacement) -> Callable[..., tuple[Any, ...]]:
    """Return a function that runs the program, but calls `replace` for each equation first.

    `replace` is not called for the equations of nested programs.
    """
    jaxpr = program.jaxpr

    def function(*args: Any) -> tuple[Any, ...]:
        values = dict(zip(jaxpr.constvars, program.consts, strict=True))
        values |= zip(jaxpr.invars, args, strict=True)

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        for eqn in jaxpr.eqns:
            operands = [value(atom) for atom in eqn.invars]
            results = replace(eqn, operands)
            if results is None:
                results = run(eqn, operands)
            values |= zip(eqn.outvars, results, strict=True)
        return tuple(value(atom) for atom in jaxpr.outvars)

    return function


def run(eqn: JaxprEqn, operands: list[Any]) -> Sequence[Any]:
    """Compute an equation's results from its operands."""
    with eqn.ctx.manager:
        results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return results if eqn.primitive.multiple_results else [results]
