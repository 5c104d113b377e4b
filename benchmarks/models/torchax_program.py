# SPDX-License-Identifier: Apache-2.0
"""Run a model with torchax. The model or the whole training step is jitted.

The training step donates the parameters and buffers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from benchmarks.models.model import TRAIN, Work
from benchmarks.models.torch_program import LEARNING_RATE, STEPS
from benchmarks.tpu_eager.torchax_peer import overloads_that_are_gone

Tensors = dict[str, Any]


class TorchaxProgram:
    """A model that runs with torchax. torchax renames PrivateUse1, so it needs its own process."""

    def __init__(self, work: Work, kind: str) -> None:
        with overloads_that_are_gone():
            torchax: Any = import_module("torchax")
            self._env = torchax.default_env()
        self._interop: Any = import_module("torchax.interop")
        self._work = work
        self._tied = tied_names(work.module)
        with self._env:
            self._module = work.module.train(kind == TRAIN).to("jax")
            self._inputs = tuple(each.to("jax") for each in work.inputs)
            self._targets = work.targets.to("jax")
            named = self._module.named_parameters()
            self._parameters = {k: v.detach() for k, v in named if k not in self._tied}
            self._buffers = dict(self._module.named_buffers())
            if kind == TRAIN:
                donated = {"donate_argnums": (0, 1)}
                self._jitted = self._interop.jax_jit(self._train, kwargs_for_jax_jit=donated)
            else:
                self._jitted = self._interop.jax_jit(self._call)
        self.run = self._step if kind == TRAIN else self._infer

    def results(self) -> dict[str, torch.Tensor]:
        """Return the same tensors as `TorchProgram.results`."""
        if self.run == self._infer:
            return {"output": self._output().torch().clone()}
        before = self._values()
        losses = [self._step()]
        update = self._values() - before
        losses += [self._step() for _ in range(STEPS - 1)]
        return {"losses": torch.tensor(losses), "update": update}

    def settle(self) -> None:
        for _ in range(2):
            self.run()

    def _call(self, parameters: Tensors, buffers: Tensors, *inputs: Any) -> Any:
        tied = {name: parameters[first] for name, first in self._tied.items()}
        values = {**parameters, **tied, **buffers}
        return torch.func.functional_call(self._module, values, inputs)

    def _train(self, parameters: Tensors, buffers: Tensors, inputs: Any, targets: Any) -> Any:
        def loss(parameters: Tensors) -> Any:
            # Normalization layers write to their buffers, so the buffers are results as well.
            held = dict(buffers)
            value = self._work.loss(self._call(parameters, held, *inputs), targets)
            return value, held

        with_buffers = {"has_aux": True}
        (value, held), gradients = self._interop.jax_value_and_grad(loss, with_buffers)(parameters)
        updated = {k: v - LEARNING_RATE * gradients[k] for k, v in parameters.items()}
        return value, updated, held

    def _output(self) -> Any:
        with self._env, torch.no_grad():
            return self._jitted(self._parameters, self._buffers, *self._inputs)

    def _infer(self) -> float:
        with self._env, torch.no_grad():
            return float(self._output().sum().item())

    def _step(self) -> float:
        with self._env:
            value, self._parameters, self._buffers = self._jitted(
                self._parameters, self._buffers, self._inputs, self._targets
            )
            return float(value.item())

    def _values(self) -> torch.Tensor:
        # JAX sorts the keys of a dict, so the order of `_parameters` may have changed.
        names = [k for k, _ in self._module.named_parameters() if k not in self._tied]
        return torch.cat([self._parameters[name].torch().clone().flatten() for name in names])


def tied_names(module: torch.nn.Module) -> dict[str, str]:
    """Map each tied parameter's other names to its first name. In torchax, `to` unties them."""
    first = {id(parameter): name for name, parameter in module.named_parameters()}
    names = module.named_parameters(remove_duplicate=False)
    return {name: first[id(p)] for name, p in names if first[id(p)] != name}
