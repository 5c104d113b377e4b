# SPDX-License-Identifier: Apache-2.0
"""Works around an XLA:CPU bug in products of half-precision numbers (jaxlib 0.10.2).

XLA:CPU leaves a product of bfloat16 numbers to the YNN library, or else converts its operands to
float32. It decides this before it folds a transpose into the product. YNN may not support the
folded product. XLA then does neither, and the program fails when it runs: "Unsupported element type
for DotThunk". Without YNN, XLA converts the operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_google.tpu.program import hlo
from torch_google.tpu.program.hlo import Instruction

WITHOUT_YNN: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}

_HALVES = ("bf16[", "f16[")


def has_unsupported_product(text: str) -> bool:
    """Return whether an optimized HLO module multiplies half-precision numbers outside of YNN."""
    if " dot(" not in text or not any(half in text for half in _HALVES):
        return False
    computations = hlo.split(text).computations
    in_libraries = {
        called
        for lines in computations.values()
        for line in lines
        if "kind=kCustom" in line and (call := Instruction.parsed(line)) is not None
        for called in call.called
    }
    return any(
        _multiplies_halves(lines)
        for name, lines in computations.items()
        if name not in in_libraries and any(" dot(" in line for line in lines)
    )


def _multiplies_halves(lines: Sequence[str]) -> bool:
    parsed = [call for line in lines if (call := Instruction.parsed(line)) is not None]
    types = {call.name: call.type for call in parsed}
    return any(
        types.get(operand, "").startswith(_HALVES)
        for call in parsed
        if call.opcode == "dot"
        for operand in call.operands
    )
