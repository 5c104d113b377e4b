# SPDX-License-Identifier: Apache-2.0
"""Advice about operators that run slowly on TPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from torch_google.tpu.estimate.capture import Operator
from torch_google.tpu.estimate.report import starred

# Matmuls with fewer floating-point operations than this are too small to be worth changing.
_SMALL = 1 << 20
_LANES, _ROWS = 128, 8
# Replication of an operator is reported only if the operator needs more than this fraction of the
# program's flops.
_NOTABLE = 0.001


def advice(operators: Iterable[Operator]) -> tuple[str, ...]:
    """Return one line of advice per finding, in program order."""
    found: dict[str, None] = {}
    for operator in operators:
        if not operator.line:
            continue  # a backward operator would only repeat the advice for its forward operator
        where = " ".join(part for part in (operator.module, operator.line) if part)
        if operator.doubles:
            found[
                f"{where}: {operator.op} computes in float64, which a TPU emulates. Use float32"
            ] = None
        if operator.flops < _SMALL:
            continue
        for text in _product(operator):
            found[f"{where}: {text}"] = None
    return tuple(found)


def replicated(
    operators: Mapping[int, Operator], flops: Mapping[int, float], devices: int
) -> tuple[str, ...]:
    """Return one line for each operator for which a device computes more than its share of flops.

    If several layers contain the same operator, they share one line.

    `flops` maps each operator to the flops that one device computes for it. XLA replicates a matmul
    if its inputs are not sharded over all axes of the mesh, or if their shardings conflict.
    """
    found: dict[tuple[str, str], str] = {}
    total = sum(flops.values())
    for node, computed in flops.items():
        operator = operators.get(node)
        share = operator.flops / devices if operator else 0.0
        if operator and share and computed > 1.5 * share and computed > _NOTABLE * total:
            where = " ".join(part for part in (starred(operator.module), operator.line) if part)
            found.setdefault(
                (where, operator.op),
                f"{where}: each device computes {computed / share:.0f} times its share of "
                f"{operator.op}, because XLA replicates it. Choose another mesh or sharding",
            )
    return tuple(found.values())


def _product(operator: Operator) -> list[str]:
    if "attention" in operator.op and operator.shapes:
        head = operator.shapes[0][-1]
        if head < _LANES:
            return [
                f"head_dim {head}: the lanes of a TPU hold {_LANES}. With head_dim {_LANES} and "
                f"{_LANES // head if head and _LANES % head == 0 else 'fewer'} times fewer heads, "
                "attention takes about half as long (2.0x measured for 64 against 128 by compiling "
                "a flash kernel of 8 x 2048 tokens)"
            ]
        return []
    if not re.match(r"(addmm|mm|bmm|baddbmm|convolution)\b", operator.op):
        return []
    if operator.op.startswith("convolution"):
        return []
    odd = sorted(
        {
            size
            for shape in operator.shapes
            for size, unit in zip(shape[-2:], (_ROWS, _LANES), strict=False)
            if len(shape) >= 2 and size % unit
        }
    )
    if not odd:
        return []
    padded = ", ".join(f"{size} to {-(-size // _LANES) * _LANES}" for size in odd)
    return [
        f"{operator.op} has sizes that are no multiples of {_ROWS} x {_LANES}: a TPU pads {padded}, "
        "or to a multiple of 8 if they are rows"
    ]
