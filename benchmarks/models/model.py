# SPDX-License-Identifier: Apache-2.0
"""A model in the benchmark, and the keys of its rows in the results.

A program is a way to run a model, such as torch on the CPU or torchax.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

INFER, TRAIN = "infer", "train"
KINDS = (INFER, TRAIN)

BASE = "torch"
"""The program that all ratios refer to: torch on the CPU, eager."""

PROGRAMS = (BASE, "inductor", "torchax", "strict", "fused", "compile")


@dataclass(frozen=True)
class Work:
    """A model with its inputs, targets and loss, all on the CPU.

    `module(*inputs)` returns a tensor, and `loss(output, targets)` a scalar.
    """

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    targets: torch.Tensor
    loss: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Model:
    """A model in the table of models, zoo/.

    `build` imports the library and creates the model with random weights. A tolerance is the
    largest acceptable relative error, in the L2 norm: `tolerance` for outputs and losses,
    `update_tolerance` for the change in all parameters in the first step.
    """

    library: str
    name: str
    build: Callable[[], Work]
    tolerance: float = 1e-3
    update_tolerance: float = 1e-2

    @property
    def key(self) -> str:
        return f"{self.library}/{self.name}"


@dataclass(frozen=True)
class Key:
    """The name of a row in the results, `LIBRARY/MODEL:KIND:PROGRAM`."""

    model: str
    kind: str
    program: str

    def __str__(self) -> str:
        return f"{self.model}:{self.kind}:{self.program}"

    def matches(self, patterns: Sequence[str]) -> bool:
        """Return whether a pattern matches the key, its LIBRARY/MODEL:KIND or its LIBRARY/MODEL."""
        names = (self.model, f"{self.model}:{self.kind}", str(self))
        return any(fnmatch.fnmatchcase(name, each) for name in names for each in patterns)


def keys(models: Mapping[str, Model]) -> Iterator[Key]:
    """Yield the keys of all rows, model by model.

    An interrupted run then has both inference and training results for most of its models.
    """
    for name in models:
        for kind in KINDS:
            for program in PROGRAMS:
                yield Key(name, kind, program)
