# SPDX-License-Identifier: Apache-2.0
"""Run a seed's random program on the CPU and, in each eager mode, on tpu; compare the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from tests.fuzz.compare import difference
from tests.fuzz.generate import generate
from tests.fuzz.minimize import minimize
from tests.fuzz.program import Program, run
from torch_google.tpu import autoload

autoload()


@dataclass(frozen=True)
class Finding:
    """A random program whose results on tpu, in one eager mode, differ from those on the CPU."""

    seed: int
    mode: str
    what: str
    program: Program

    def __str__(self) -> str:
        """Return the difference and the source of the program."""
        return f"seed {self.seed}, {self.mode}: {self.what}\n{self.program.source()}\n"


def check(seed: int, modes: Sequence[str], *, shrink: bool) -> Iterator[Finding]:
    """Yield a Finding for each mode in which the seed's program gives a different result on tpu."""
    program = generate(seed)
    for mode in modes:
        text = differs(program, mode)
        if not text:
            continue
        small = minimize(program, partial(_differs_in, mode)) if shrink else program
        yield Finding(seed, mode, differs(small, mode) or text, small)


def _differs_in(mode: str, program: Program) -> bool:
    return bool(differs(program, mode))


def differs(program: Program, mode: str) -> str:
    """Return the first difference between the results on tpu in `mode` and on the CPU.

    Return "" if there is none.
    """
    if mode != "debug":
        program = program.without_values()
    cpu = run(program, "cpu")
    with torch.tpu.eager_mode(mode):
        text = difference(program, cpu, run(program, "tpu"))
        if text or mode != "fused":
            return text
        # Fused mode compiles in the background. Run the program once more, wait for the
        # compilation, and compare a third run, which is guaranteed to use the fused code.
        run(program, "tpu")
        torch.tpu.wait_for_compiles()
        return difference(program, cpu, run(program, "tpu"))
