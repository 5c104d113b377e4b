# SPDX-License-Identifier: Apache-2.0
"""The table of cases, and the `Run` class, through which a case runs a library's model.

A case is a function that takes a `Run` and returns tensors, in dicts, lists or dataclasses. It runs
on the CPU first, then on tpu in each of its modes, and the tensors must be equal within a
tolerance. A case must not depend on its mode: it creates its model on the CPU, moves it to
`run.device`, and passes it to `run.compiled`, which compiles it only in `compile` mode.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

CPU, STRICT, FUSED, COMPILE = "cpu", "strict", "fused", "compile"
EAGER = (STRICT, FUSED)
ALL = (STRICT, FUSED, COMPILE)

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """A row of the table. `library` is the key of a package in a lock file.

    `rtol` and `atol` apply to tensors of every dtype.
    """

    library: str
    function: Callable[[Run], Any]
    modes: tuple[str, ...] = ALL
    rtol: float = 1e-3
    atol: float = 1e-4

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def key(self) -> str:
        return f"{self.library}/{self.name}"


_TABLE: dict[str, Case] = {}


def case(
    library: str, *, modes: tuple[str, ...] = ALL, rtol: float = 1e-3, atol: float = 1e-4
) -> Callable[[_F], _F]:
    """Add a function to the table. Raises ValueError if the library has a case of the same name."""

    def register(function: _F) -> _F:
        row = Case(library, function, modes, rtol, atol)
        if row.key in _TABLE:
            raise ValueError(f"{function.__module__}: {row.key} is already in the table")
        _TABLE[row.key] = row
        return function

    return register


def table() -> Mapping[str, Case]:
    """Return all cases, keyed by `library/name`. Import the modules of `cases`, but no library."""
    from tests.ecosystem import cases

    cases.load()
    return _TABLE


@dataclass(frozen=True)
class Run:
    """One run of a case: its device, and whether to use torch.compile."""

    device: torch.device
    compiles: bool = False

    def put(self, value: Any) -> Any:
        """Move tensors and modules, including those in dicts, lists and tuples, to the device."""
        if isinstance(value, torch.Tensor | torch.nn.Module):
            return value.to(self.device)
        if isinstance(value, dict):
            return {key: self.put(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.put(item) for item in value)
        return value

    def compiled(self, function: _F) -> _F:
        """Return the given function or module, compiled by torch.compile if `compiles` is true."""
        if not self.compiles:
            return function
        compiled: Any = torch.compile(function)
        return compiled

    def train(
        self,
        model: torch.nn.Module,
        inputs: Sequence[Any] | Mapping[str, Any],
        *,
        loss: Callable[[Any], torch.Tensor] | None = None,
        optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
        steps: int = 2,
    ) -> dict[str, Any]:
        """Train a model on one batch, save and load it, and evaluate it.

        Return the losses, gradients, state and output. Dropout is disabled, because random numbers
        differ between devices. The default loss is the mean square of the outputs, and the default
        optimizer is SGD with momentum.
        """
        without_dropout(model)
        model = self.put(model).train()
        arguments = self.put(inputs)
        forward = self.compiled(model)
        parameters = [p for p in model.parameters() if p.requires_grad]
        step = optimizer(parameters) if optimizer else torch.optim.SGD(parameters, 0.01, 0.9)
        losses = []
        for _ in range(steps):
            step.zero_grad()
            value = (loss or mean_square)(_call(forward, arguments))
            value.backward()
            step.step()
            losses.append(value.detach())
            if self.device.type == "tpu":
                torch.tpu.wait_for_compiles()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        model.load_state_dict(torch.load(file, weights_only=True))
        model.eval()
        with torch.no_grad():
            output = _call(model, arguments)
        return {
            "losses": losses,
            "gradients": gradients,
            "state": dict(model.state_dict()),
            "output": output,
        }

    def optimize(self, create: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]) -> Any:
        """Train a small network with an optimizer whose steps are compiled.

        `create` returns the optimizer of the given parameters. Return the losses and parameters.
        """
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        model, inputs = self.put([model, torch.randn(5, 4)])
        optimizer = create(list(model.parameters()))
        step = self.compiled(optimizer.step)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            step()
            losses.append(loss.detach())
        return losses, dict(model.named_parameters())

    def evaluate(self, model: torch.nn.Module, inputs: Sequence[Any] | Mapping[str, Any]) -> Any:
        """Return the output of a model in evaluation mode, without gradients."""
        model = self.put(model).eval()
        forward = self.compiled(model)
        with torch.no_grad():
            return _call(forward, self.put(inputs))


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Disable the dropout layers of a model, and return it."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
    return model


def mean_square(output: Any) -> torch.Tensor:
    """Return the sum of the mean squares of all floating-point and complex tensors in an output."""
    values = [t for t in tensors(output).values() if t.is_floating_point() or t.is_complex()]
    return torch.stack([t.abs().square().mean().to(torch.float32) for t in values]).sum()


def tensors(value: Any, name: str = "") -> dict[str, torch.Tensor]:
    """Map paths to the tensors and scalars in a nested value (dicts, lists, objects)."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    if isinstance(value, bool | int | float | complex):
        return {name: torch.tensor(value)}
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif hasattr(value, "__dict__"):
        items = vars(value).items()
    else:
        return {}
    return {
        path: tensor
        for key, item in items
        for path, tensor in tensors(item, f"{name}.{key}" if name else str(key)).items()
    }


def _call(model: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any]) -> Any:
    return model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
