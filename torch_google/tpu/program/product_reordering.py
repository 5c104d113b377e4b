# SPDX-License-Identifier: Apache-2.0
"""Reorders matmuls so that they take XLA:CPU's fast path, without changing any sum.

XLA:CPU has a fast path for matmuls whose left operand is row-major. The matmul for a weight
gradient sums over the rows of both operands, so it misses that path and takes 1.4 times as long if
the left operand is the wider one. This module transposes the narrower operand and makes it the left
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Var
from jax.extend.core.primitives import dot_general_p, transpose_p

from torch_google.tpu.lowerings.platform_choice import without_choices
from torch_google.tpu.lowerings.replay import replaying

# Only matmuls with at least this many multiplications are reordered. In smaller ones, copying an
# operand costs as much time as the fast path saves.
_MANY = 2**24


def reordered(program: ClosedJaxpr) -> Callable[..., tuple[Any, ...]] | None:
    """Return a function equivalent to the program, or None if there is nothing to reorder.

    Reordering is useful only for programs that run on XLA:CPU.
    """
    program = without_choices(program)
    jaxpr = program.jaxpr
    transposed = {
        eqn.outvars[0]
        for eqn in jaxpr.eqns
        if eqn.primitive is transpose_p and eqn.params["permutation"] == (1, 0)
    }
    chosen = {id(eqn) for eqn in jaxpr.eqns if _sums_over_rows(eqn, transposed)}
    if not chosen:
        return None

    def replace(eqn: JaxprEqn, operands: list[Any]) -> list[Any] | None:
        if id(eqn) not in chosen:
            return None
        left, right = operands
        return [_product(left, right, eqn.params)]

    return replaying(program, replace)


def _sums_over_rows(eqn: JaxprEqn, transposed: Container[Var]) -> bool:
    """Return whether an equation is a large matmul that contracts the rows of both matrices."""
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
    # Undo the transposes, so that both operands are contracted over axis 0.
    left, right = left.T if of_left else left, right.T if of_right else right
    if left.shape[1] <= right.shape[1]:
        return _rows_by_columns(left, right, params)
    # Without the barrier, XLA would fold both transposes back into the original matmul.
    return jax.lax.optimization_barrier(_rows_by_columns(right, left, params)).T


def _rows_by_columns(left: jax.Array, right: jax.Array, params: dict[str, Any]) -> jax.Array:
    lying = jax.lax.optimization_barrier(left.T)
    product: jax.Array = dot_general_p.bind(
        lying, right, **{**params, "dimension_numbers": (((1,), (0,)), ((), ()))}
    )
    return product
