# SPDX-License-Identifier: Apache-2.0
"""The cases to measure, and the programs that run each case."""

from __future__ import annotations

from dataclasses import dataclass

EAGER = ("torch", "strict", "fused")
COMPILED = ("inductor", "compile", "jax", "torchax")
STEPS = ("inductor", "inductor_whole", "compile", "compile_whole", "compile_step", *COMPILED[2:])


@dataclass(frozen=True)
class Case:
    """A case, and the programs (`peers`) that run it. Ratios are relative to the first program.

    The kinds are train (one step with its optimizer, including reading the loss), infer, add
    (`x + y` of 8x8 matrices) and record (like add, but measures only the CPU time of the issuing
    thread). `unit` is the unit of the printed times, in seconds.
    """

    name: str
    title: str
    kind: str
    peers: tuple[str, ...]
    unit: float = 1e-3

    @property
    def unit_name(self) -> str:
        return {1e-3: "ms", 1e-6: "us"}[self.unit]


CASES = {
    case.name: case
    for case in (
        Case("record", "x + y of 8x8, recorded", "record", ("torch", "fused"), 1e-6),
        Case("add", "x + y of 8x8", "add", (*EAGER, "jax", "torchax"), 1e-6),
        Case("tiny_gpt", "tiny GPT, a step", "train", (*EAGER, *STEPS)),
        Case("mlp", "MLP 64x256, a step", "train", (*EAGER, *STEPS)),
        Case("gpt", "GPT, 4 layers of 256, 8x128, a step", "train", (*EAGER, *STEPS)),
        Case("resnet18", "ResNet-18, inference of 2", "infer", (*EAGER, *COMPILED)),
    )
}
PEERS = tuple(dict.fromkeys(peer for case in CASES.values() for peer in case.peers))
