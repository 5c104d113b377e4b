# SPDX-License-Identifier: Apache-2.0
"""Generate the program for a seed, and compare tpu with the CPU in each eager mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from tests.fuzz.compare import difference
from tests.fuzz.generate import generate
from tests.fuzz.minimise import minimise
from tests.fuzz.program import Program, run
from torch_google.tpu import autoload

autoload()


@dataclass(frozen=True)
class Finding:
    """A random program whose results differ between tpu and the CPU in a mode."""

    seed: int
    mode: str
    what: str
    program: Program

    def __str__(self) -> str:
        """Return the difference, and the source of a script that reproduces it."""
        return f"seed {self.seed}, {self.mode}: {self.what}\n{self.program.source()}\n"


def check(seed: int, modes: Sequence[str], *, shrink: bool) -> Iterator[Finding]:
    """Yield a Finding for each mode in which the seed's program differs from the CPU."""
    program = generate(seed)
    for mode in modes:
        text = differs(program, mode)
        if not text:
            continue
        small = minimise(program, partial(_differs_in, mode)) if shrink else program
        yield Finding(seed, mode, differs(small, mode) or text, small)


def _differs_in(mode: str, program: Program) -> bool:
    return bool(differs(program, mode))


def differs(program: Program, mode: str) -> str:
    """Return the first difference between tpu and the CPU in a mode, or an empty string."""
    if mode != "debug":
        program = program.without_values()
    cpu = run(program, "cpu")
    with torch.tpu.eager_mode(mode):
        text = difference(program, cpu, run(program, "tpu"))
        if text or mode != "fused":
            return text
        # Fused mode compiles in the background, so only the third run certainly uses the fused
        # program.
        run(program, "tpu")
        torch.tpu.wait_for_compiles()
        return difference(program, cpu, run(program, "tpu"))
