# SPDX-License-Identifier: Apache-2.0
"""Run a model with torch, on the CPU or on the tpu device, eager or compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.models.model import TRAIN, Work

LEARNING_RATE = 0.01
"""For SGD without momentum, the optimizer of every model."""

# The device of each program, its eager mode, and whether it compiles the model.
SETTINGS: dict[str, tuple[str, str | None, bool]] = {
    "torch": ("cpu", None, False),
    "inductor": ("cpu", None, True),
    "strict": ("tpu", "strict", False),
    "fused": ("tpu", "fused", False),
    "compile": ("tpu", "strict", True),
}
# The number of initial training steps whose losses are compared.
STEPS = 3


class TorchProgram:
    """A model that runs with torch and the settings `SETTINGS[name]`."""

    def __init__(self, name: str, work: Work, kind: str) -> None:
        self._device, mode, compiles = SETTINGS[name]
        if self._device == "tpu":
            from torch_google.tpu import autoload

            autoload()
            torch.tpu.set_eager_mode(mode)
        self._work = work
        self._module = work.module.train(kind == TRAIN).to(self._device)
        self._inputs = tuple(each.to(self._device) for each in work.inputs)
        self._targets = work.targets.to(self._device)
        self._called: Callable[..., Any] = torch.compile(self._module) if compiles else self._module
        parameters = [each for each in self._module.parameters() if each.requires_grad]
        self._optimizer = torch.optim.SGD(parameters, LEARNING_RATE)
        self.run = self._step if kind == TRAIN else self._infer

    def results(self) -> dict[str, torch.Tensor]:
        """Return, as CPU tensors, the results that are compared between programs.

        They are the output, or the losses of the first steps and the change in the parameters in
        the first step.
        """
        if self.run == self._infer:
            with torch.no_grad():
                return {"output": self._called(*self._inputs).cpu()}
        before = self._parameters()
        losses = [self._step()]
        update = self._parameters() - before
        losses += [self._step() for _ in range(STEPS - 1)]
        return {"losses": torch.tensor(losses), "update": update}

    def settle(self, *, rounds: int = 20) -> None:
        """Run rounds until one compiles nothing, even in the background.

        Run at most `rounds` rounds, then warn.
        """
        for _ in range(rounds):
            before = torch.tpu.metrics().compiles if self._device == "tpu" else 0
            for _ in range(2):
                self.run()
            if self._device != "tpu":
                return
            torch.tpu.synchronize()
            torch.tpu.wait_for_compiles()
            if torch.tpu.metrics().compiles == before:
                return
        warnings.warn(
            f"programs still compile after {rounds} rounds, so the times include compilations",
            stacklevel=2,
        )

    def _infer(self) -> float:
        with torch.no_grad():
            value: float = self._called(*self._inputs).sum().item()
        return value

    def _step(self) -> float:
        self._optimizer.zero_grad()
        loss = self._work.loss(self._called(*self._inputs), self._targets)
        loss.backward()
        self._optimizer.step()
        value: float = loss.item()
        return value

    def _parameters(self) -> torch.Tensor:
        return torch.cat([each.detach().cpu().flatten() for each in self._module.parameters()])
