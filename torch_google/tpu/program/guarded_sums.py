# SPDX-License-Identifier: Apache-2.0
"""Prevents an abort in XLA's algebraic simplifier (jaxlib 0.10.2).

JAX expresses `cumsum` as a `reduce_window` that adds. XLA may fold the operand into a broadcast of
a reshaped constant, as it does for a gather from zeros. The simplifier then replaces the sum with
an iota, but mistakes the reshape for a constant, and a failed check aborts the process.

An optimization barrier before the operand keeps the simplifier's pattern from matching. Windowed
maxima, minima and products need no barrier.
"""

from __future__ import annotations

import jax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

_WINDOW = "stablehlo.reduce_window"
_BARRIER = "stablehlo.optimization_barrier"


def guard_sums(lowered: jax.stages.Lowered) -> None:
    """Insert an optimization barrier before the operands of every windowed sum, in place."""
    module = lowered.compiler_ir("stablehlo")
    sums: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _WINDOW and _adds(op):
            sums.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in sums:
        _guard(op)


def _adds(window: ir.Operation) -> bool:
    return any(op.operation.name == "stablehlo.add" for op in window.regions[0].blocks[0])


def _guard(window: ir.Operation) -> None:
    # The second half of the operands holds the initial values.
    for index in range(len(window.operands) // 2):
        operand = window.operands[index]
        if getattr(operand.owner, "name", "") == _BARRIER:
            continue
        with window.location, ir.InsertionPoint(window):
            window.operands[index] = stablehlo.OptimizationBarrierOp([operand]).results[0]
