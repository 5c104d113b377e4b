# SPDX-License-Identifier: Apache-2.0
"""The rows to test from optim_db, torch's table of optimizers.

A row passes if training on tpu matches training on the CPU, including after the devices exchange
optimizer states and after the learning rate changes.
"""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_optimizers import optim_db

from tests.upstream import agreement
from tests.upstream.row import Mismatch, Result, Row, Table, judge

_INFOS = {info.name: info for info in optim_db}
_STEPS = 3
_SIZES = ((3, 4), (5,), ())
_MATRICES = ((3, 4), (4, 2))
_FLAGS = ("foreach", "fused", "differentiable")
# The number of additional steps after which no step compiles a program. RAdam takes a different
# branch from its sixth step on. With a tensor beta, the exponent changes in each step. It becomes
# an input of the program only after eight programs have been compiled with a constant exponent.
_WARM = 6


def rows() -> list[Row]:
    """Return a row for each optimizer, parameter dtype, and implementation."""
    return [
        Row(Table.OPTIMIZERS, name, dtype, variant)
        for name, info in _INFOS.items()
        for dtype in (torch.float32, torch.float64, *_others(info))
        for variant in ("single", *info.supported_impls)
        if not (variant == "fused" and dtype.is_complex)
    ]


def run(row: Row, *, samples: int) -> Result:
    """Test a row's optimizer, with the row's dtype, in its first configurations.

    The row fails if any configuration fails.
    """
    named = ((sample.name, sample) for sample in itertools.islice(_samples(row), samples))
    return judge(row, named, expected=_expected, compare=_compare)


@dataclass(frozen=True)
class Sample:
    """One configuration of an optimizer."""

    name: str
    info: Any
    dtype: torch.dtype
    options: dict[str, Any]

    @property
    def steps(self) -> int:
        """The number of steps to run before states are compared."""
        # With torch's differentiable Adamax, a step overwrites tensors that the previous step's
        # backward pass needs.
        return 1 if self.info.name == "Adamax" and self.options.get("differentiable") else _STEPS


class Training:
    """Parameters on a device, with their optimizer. Gradients are the same on every device."""

    def __init__(self, sample: Sample, device: str) -> None:
        self._info = sample.info
        self._random = torch.Generator().manual_seed(0)
        sizes = _MATRICES if sample.info.name == "Muon" else _SIZES
        self.differentiable = bool(sample.options.get("differentiable", False))
        self.device = device
        self.parameters = [self._draw(size, sample.dtype) for size in sizes]
        for parameter in self.parameters:
            parameter.requires_grad_()
        options = copy.deepcopy(sample.options)
        if device == "cpu":
            options.pop("capturable", None)
        # A differentiable optimizer trains clones, because autograd rejects in-place writes to leaf
        # tensors that require a gradient.
        trained = [p.clone() for p in self.parameters] if self.differentiable else self.parameters
        self.trained = trained
        self.optimizer = sample.info.optim_cls(trained, **options)

    def steps(self, count: int) -> None:
        """Run `count` steps, each with new random gradients."""
        for _ in range(count):
            if self._info.step_requires_closure:
                self.optimizer.step(self._closure)
                continue
            for parameter in self.trained:
                parameter.grad = self._gradient(parameter)
            self.optimizer.step()

    def gradients(self) -> list[Any]:
        """Return the gradients, through all steps, with respect to the initial parameters."""
        total = sum(parameter.abs().pow(2).sum() for parameter in self.trained)
        return list(
            torch.autograd.grad(total, self.parameters, allow_unused=True, retain_graph=True)
        )

    def _closure(self) -> torch.Tensor:
        """Compute a convex loss with a fixed minimum, so that rounding errors do not accumulate."""
        self.optimizer.zero_grad()
        loss = sum((i + 1) * (p - 0.5).abs().pow(2).sum() for i, p in enumerate(self.parameters))
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        return loss

    def _gradient(self, parameter: torch.Tensor) -> torch.Tensor:
        drawn = self._draw(parameter.shape, parameter.dtype)
        return drawn.to_sparse() if self._info.only_supports_sparse_grads else drawn

    def _draw(self, size: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(size, dtype=dtype, generator=self._random).to(self.device)


def _others(info: Any) -> tuple[torch.dtype, ...]:
    return (torch.complex64,) if info.supports_complex else ()


def _samples(row: Row) -> Iterator[Sample]:
    info = _INFOS[row.name]
    # torch has more configurations for GPUs than for the CPU, such as capturable ones.
    for configuration in info.optim_inputs_func("cuda"):
        options = copy.deepcopy(configuration.kwargs)
        options |= {flag: flag == row.variant for flag in _FLAGS if flag in info.supported_impls}
        if options.get("capturable") and row.variant == "differentiable":
            continue  # The CPU does not support capturable, so there is no reference.
        yield Sample(configuration.desc or "default", info, row.dtype, options)


def _expected(sample: Sample) -> Training | None:
    """Train for the first steps on the CPU. Return None if the CPU rejects the options."""
    try:
        training = Training(sample, "cpu")
        training.steps(sample.steps)
        if training.differentiable:
            training.gradients()
    except (RuntimeError, NotImplementedError, ValueError, TypeError):
        return None
    return training


def _compare(sample: Sample, expected: Training, _first: bool) -> None:
    actual = Training(sample, "tpu")
    actual.steps(sample.steps)
    # A capturable optimizer counts steps in float32, whatever the dtype of the parameters.
    like = torch.float32 if sample.options.get("capturable") else None
    agreement.check("parameter", actual.trained, expected.trained, like=like)
    _same_state("state", actual, expected, like)
    if actual.differentiable:
        agreement.check("gradient through the steps", actual.gradients(), expected.gradients())
        return
    _exchange(actual, expected)
    agreement.check("parameter, with states exchanged", actual.trained, expected.trained, like=like)
    _change_of_lr(actual, expected)
    agreement.check("parameter, with another lr", actual.trained, expected.trained, like=like)


def _exchange(actual: Training, expected: Training) -> None:
    """Continue training on each device with the optimizer state from the other device."""
    cpu_state, tpu_state = _through_a_file(actual, "cpu"), _through_a_file(expected, "tpu")
    actual.optimizer.load_state_dict(tpu_state)
    for parameter, state in actual.optimizer.state.items():
        for name, leaf in state.items():
            if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.device != parameter.device:
                raise Mismatch(f"load_state_dict: '{name}' is on {leaf.device}")
    actual.steps(1)
    capturable = [group.get("capturable") for group in expected.optimizer.param_groups]
    expected.optimizer.load_state_dict(cpu_state)
    for group, value in zip(expected.optimizer.param_groups, capturable, strict=True):
        if value is not None:
            group["capturable"] = value
    expected.steps(1)


def _through_a_file(training: Training, device: str) -> Any:
    file = io.BytesIO()
    torch.save(training.optimizer.state_dict(), file)
    file.seek(0)
    return torch.load(file, map_location=device)


def _change_of_lr(actual: Training, expected: Training) -> None:
    """Check that changing the learning rate does not make the next step compile a program.

    The learning rate must be an input of the existing programs.
    """
    for training in (actual, expected):
        for group in training.optimizer.param_groups:
            if isinstance(group["lr"], int):
                group["lr"] = float(group["lr"])
    actual.steps(_WARM)
    expected.steps(_WARM)
    for training in (actual, expected):
        for group in training.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].mul_(0.5)
            else:
                group["lr"] *= 0.5
    torch.tpu.reset_metrics()
    actual.steps(1)
    expected.steps(1)
    if compiles := torch.tpu.metrics().compiles:
        raise Mismatch(f"another lr: {compiles} programs were compiled")


def _same_state(label: str, actual: Training, expected: Training, like: torch.dtype | None) -> None:
    if actual.optimizer.defaults.keys() >= {"history_size"}:
        return  # For LBFGS, rounding changes how often it evaluates the loss.
    for mine, other in zip(actual.trained, expected.trained, strict=True):
        one, two = actual.optimizer.state[mine], expected.optimizer.state[other]
        if one.keys() != two.keys():
            raise Mismatch(f"{label}: {sorted(one)} for {sorted(two)}")
        for name, leaf in two.items():
            if not isinstance(leaf, torch.Tensor) or not leaf.dim():
                # Unless the optimizer is capturable, scalars such as the step count are on the CPU.
                agreement.check(f"{label} '{name}'", one[name], leaf, anywhere=True, like=like)
            else:
                agreement.check(f"{label} '{name}'", one[name], leaf, like=like)
