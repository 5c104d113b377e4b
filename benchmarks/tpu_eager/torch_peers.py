# SPDX-License-Identifier: Apache-2.0
"""Run the workloads with torch: on the CPU and on the `tpu` device, eager and compiled."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.tpu_eager.models import workload

# The device of each program, its eager mode, and the part of a training step that is compiled:
# nothing, the model, the step except zero_grad (whole), or the full step by compile_step (program).
SETTINGS: dict[str, tuple[str, str | None, str]] = {
    "torch": ("cpu", None, ""),
    "inductor": ("cpu", None, "model"),
    "inductor_whole": ("cpu", None, "whole"),
    "strict": ("tpu", "strict", ""),
    "fused": ("tpu", "fused", ""),
    "compile": ("tpu", "strict", "model"),
    "compile_whole": ("tpu", "strict", "whole"),
    "compile_step": ("tpu", "strict", "program"),
}


class Torch:
    """The workloads, run in this process with the settings `SETTINGS[name]`."""

    def __init__(self, name: str) -> None:
        self.device, mode, self._compiled = SETTINGS[name]
        if self.device == "tpu":
            from torch_google.tpu import autoload

            autoload()
            torch.tpu.set_eager_mode(mode)

    def train(self, name: str) -> Callable[[], float]:
        """Return a function that runs one training step and returns its loss."""
        work = workload(name)
        model = copy.deepcopy(work.model).to(self.device)
        inputs, targets = work.inputs.to(self.device), work.targets.to(self.device)
        optimizer = work.optimizer(model)
        if self._compiled == "program":
            from torch_google.tpu.compile import compile_step

            program = compile_step(partial(work.loss, model), optimizer)
            return lambda: program(inputs, targets).item()
        called = torch.compile(model) if self._compiled == "model" else model

        def step() -> torch.Tensor:
            loss = work.loss(called, inputs, targets)
            loss.backward()
            optimizer.step()
            return loss

        compiled = torch.compile(step) if self._compiled == "whole" else step

        def run() -> float:
            optimizer.zero_grad()
            return compiled().item()

        return run

    def infer(self, name: str) -> Callable[[], float]:
        """Return a function that runs the model once and returns the sum of its logits."""
        work = workload(name)
        model = copy.deepcopy(work.model).to(self.device).eval()
        inputs = work.inputs.to(self.device)
        called = torch.compile(model) if self._compiled else model

        def run() -> float:
            with torch.no_grad():
                return called(inputs).sum().item()

        return run

    def add(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return two functions: one issues `x + y`, the other waits for all results."""
        x, y = torch.ones(8, 8).to(self.device), torch.ones(8, 8).to(self.device)
        held: list[Any] = [x]

        def run() -> None:
            held[0] = x + y

        return run, self.wait

    def wait(self) -> None:
        """Wait until all issued operators have finished."""
        if self.device == "tpu":
            torch.tpu.synchronize()

    def settle(self, run: Callable[[], object], *, rounds: int = 20) -> None:
        """On tpu, run steps until a round of three compiles nothing, even in the background.

        Run at most `rounds` rounds, then warn. On other devices, do nothing.
        """
        if self.device != "tpu":
            return
        for _ in range(rounds):
            before = torch.tpu.metrics().compiles
            for _ in range(3):
                run()
            self.wait()
            torch.tpu.wait_for_compiles()
            if torch.tpu.metrics().compiles == before:
                return
        warnings.warn(
            f"programs still compile after {rounds} rounds, so the times include compilations",
            stacklevel=2,
        )
