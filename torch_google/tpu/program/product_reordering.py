# SPDX-License-Identifier: Apache-2.0
"""Matrix products as XLA:CPU runs them fastest: the same sums, with the operands in another order.

XLA:CPU has a quick way for products whose left operand lies row by row. The gradient of a weight sums
over the rows of both operands, and goes another way: 1.4 times as long where the left operand is the
wider one. Here the narrower of the two is transposed first, and goes left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import dot_general_p, transpose_p

# Multiplications below which the copy of an operand costs what it saves.
_MANY = 2**24


def reordered(program: ClosedJaxpr) -> Callable[..., tuple[Any, ...]] | None:
    """Return a function of arrays that does what a program does, or None: there is nothing to do.

    It is for programs of XLA:CPU.
    """
    jaxpr = program.jaxpr
    transposed = {
        eqn.outvars[0]
        for eqn in jaxpr.eqns
        if eqn.primitive is transpose_p and eqn.params["permutation"] == (1, 0)
    }
    chosen = {at for at, eqn in enumerate(jaxpr.eqns) if _sums_over_rows(eqn, transposed)}
    if not chosen:
        return None

    def function(*given: Any) -> tuple[Any, ...]:
        values = dict(zip(jaxpr.constvars, program.consts, strict=True))
        values |= zip(jaxpr.invars, given, strict=True)

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        for at, eqn in enumerate(jaxpr.eqns):
            operands = [value(atom) for atom in eqn.invars]
            if at in chosen:
                left, right = operands
                made = [_product(left, right, eqn.params)]
            else:
                made = _bind(eqn, operands)
            values |= zip(eqn.outvars, made, strict=True)
        return tuple(value(atom) for atom in jaxpr.outvars)

    return function


def _sums_over_rows(eqn: JaxprEqn, transposed: Container[Var]) -> bool:
    """Whether an equation is a large product of two matrices that both lie with their rows summed."""
    if eqn.primitive is not dot_general_p:
        return False
    shapes = [atom.aval.shape for atom in eqn.invars]
    axes, _ = eqn.params["dimension_numbers"]
    if any(len(shape) != 2 for shape in shapes) or [len(each) for each in axes] != [1, 1]:
        return False
    rows = [
        axis == (isinstance(atom, Var) and atom in transposed)
        for atom, (axis,) in zip(eqn.invars, axes, strict=True)
    ]
    summed = shapes[0][axes[0][0]]
    return all(rows) and math.prod(eqn.outvars[0].aval.shape) * summed >= _MANY


def _product(left: jax.Array, right: jax.Array, params: dict[str, Any]) -> jax.Array:
    ((of_left,), (of_right,)), _ = params["dimension_numbers"]
    # Each as what it is a transpose of: the sum goes over axis 0.
    left, right = left.T if of_left else left, right.T if of_right else right
    if left.shape[1] <= right.shape[1]:
        return _rows_by_columns(left, right, params)
    # XLA would join the two transposes to the product that it was.
    return jax.lax.optimization_barrier(_rows_by_columns(right, left, params)).T


def _rows_by_columns(left: jax.Array, right: jax.Array, params: dict[str, Any]) -> jax.Array:
    lying = jax.lax.optimization_barrier(left.T)
    made: jax.Array = dot_general_p.bind(
        lying, right, **{**params, "dimension_numbers": (((1,), (0,)), ((), ()))}
    )
    return made


def _bind(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    params = eqn.primitive.get_bind_params(eqn.params)
    with eqn.ctx.manager:
        made = eqn.primitive.bind(*operands, **params)
    return made if eqn.primitive.multiple_results else [made]
