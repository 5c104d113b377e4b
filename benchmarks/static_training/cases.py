# SPDX-License-Identifier: Apache-2.0
"""The training runs to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A training run of `count` epochs or steps. `unit` says which; results are per unit."""

    name: str
    title: str
    unit: str
    count: int


CASES = {
    case.name: case
    for case in (
        Case("digits", "The digits of examples/train, batches of 32", "epoch", 10),
        Case("gpt", "GPT, 4 layers of 256, batches of 8x128", "step", 10),
        Case("resnet18", "ResNet-18, batches of 2x3x224x224", "step", 5),
    )
}
