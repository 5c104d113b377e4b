# SPDX-License-Identifier: Apache-2.0
"""Run the workloads with torchax. Training steps and models are jitted; `x + y` runs eagerly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch._ops import OpOverloadPacket

from benchmarks.tpu_eager.models import workload
from benchmarks.tpu_eager.updates import OPTIMIZERS, UPDATES, zeros


class Torchax:
    """The workloads, run with torchax. torchax renames PrivateUse1, so it needs its own process."""

    def __init__(self) -> None:
        with overloads_that_are_gone():
            torchax: Any = import_module("torchax")
            self._env = torchax.default_env()

    def train(self, name: str) -> Callable[[], float]:
        """Return a function that runs one training step and returns its loss."""
        interop: Any = import_module("torchax.interop")
        work = workload(name)
        optimizer = OPTIMIZERS[name]
        with self._env:
            model = work.model.to("jax")
            inputs, targets = work.inputs.to("jax"), work.targets.to("jax")
            parameters = {k: v.detach() for k, v in model.named_parameters()}
            held: list[Any] = [parameters, zeros(parameters, optimizer)]

            def loss(values: dict[str, Any]) -> Any:
                def called(batch: Any) -> Any:
                    return torch.func.functional_call(model, values, (batch,))

                return work.loss(called, inputs, targets)

            def step(values: dict[str, Any], moments: Any) -> Any:
                value, grads = interop.jax_value_and_grad(loss)(values)
                return value, *UPDATES[optimizer](values, grads, moments)

            jitted = interop.jax_jit(step, kwargs_for_jax_jit={"donate_argnums": (0, 1)})

        def run() -> float:
            with self._env:
                value, *held[:] = jitted(*held)
                return float(value.item())

        return run

    def infer(self, name: str) -> Callable[[], float]:
        """Return a function that runs the jitted model once and returns the sum of its logits."""
        interop: Any = import_module("torchax.interop")
        work = workload(name)
        with self._env:
            model = interop.JittableModule(work.model.eval().to("jax"))
            inputs = work.inputs.to("jax")

        def run() -> float:
            with self._env, torch.no_grad():
                return float(model(inputs).sum().item())

        return run

    def add(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return two functions: one issues `x + y`, the other waits for all results."""
        with self._env:
            x, y = torch.ones(8, 8).to("jax"), torch.ones(8, 8).to("jax")
        held: list[Any] = [x]

        def run() -> None:
            with self._env:
                held[0] = x + y

        def wait() -> None:
            held[0].jax().block_until_ready()

        return run, wait


@contextmanager
def overloads_that_are_gone() -> Iterator[None]:
    """Provide stand-ins for named-tensor overloads, which torchax uses but torch 2.13 removed."""
    original = OpOverloadPacket.__getattr__

    def overload(self: OpOverloadPacket, key: str) -> Any:
        try:
            return original(self, key)
        except AttributeError:
            if key.startswith("_"):
                raise
            return f"{self}.{key}"

    OpOverloadPacket.__getattr__ = overload
    try:
        yield
    finally:
        OpOverloadPacket.__getattr__ = original
