# SPDX-License-Identifier: Apache-2.0
"""The table of cases. The `peers` of a case are the programs that run it."""

from __future__ import annotations

from dataclasses import dataclass

EAGER = ("torch", "strict", "fused")
COMPILED = ("inductor", "compile", "jax", "torchax")
STEPS = ("inductor", "inductor_whole", "compile", "compile_whole", "compile_step", *COMPILED[2:])


@dataclass(frozen=True)
class Case:
    """A row of the report. Ratios are relative to the first of `peers`.

    `kind` is train (a step of model and optimizer, then reading the loss), infer, add (`x + y` with
    8x8 matrices), or record (the same, measured only in the thread that issues it). `unit` is in
    seconds.
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
