# SPDX-License-Identifier: Apache-2.0
"""A torch program, stored as lines of source code, and its results on a device."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own name for it)
from torch.utils.checkpoint import checkpoint

# Exact values are multiples of GRID, at most LARGEST in magnitude, so float32 computes sums and
# products of a few of them without rounding, in any order.
GRID = 1 / 64
LARGEST = 4096.0


@dataclass(frozen=True)
class Program:
    """Lines of source code that create, change and delete tensors.

    `exact` names the tensors whose values must be equal on both devices; other tensors may differ
    by rounding. `by_value` contains the lines that the CPU rejects because of the values in a
    tensor, which tpu checks only in debug mode.
    """

    lines: tuple[str, ...]
    exact: frozenset[str]
    by_value: frozenset[str] = frozenset()

    def without_values(self) -> Program:
        """Return the program without the lines in `by_value`."""
        lines = tuple(line for line in self.lines if line not in self.by_value)
        return replace(self, lines=lines)

    def source(self) -> str:
        """Return the source of a function that runs the program on a given device."""
        body = textwrap.indent("\n".join(self.lines), "    ")
        return f"def program(device):\n{body}\n    return locals()"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: each line's error type, and CPU copies of the final tensors.

    `unreadable` maps the name of each tensor that cannot be read to the type of the error.
    """

    errors: tuple[str, ...]
    tensors: dict[str, Observed]
    unreadable: dict[str, str]


@dataclass(frozen=True)
class Observed:
    """The properties of a tensor that a program can observe."""

    values: torch.Tensor
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    gradient: torch.Tensor | None


def run(program: Program, device: str) -> Outcome:
    """Run a program on a device. If a line raises an error, continue with the next line."""
    names = namespace(device)
    errors = tuple(run_line(line, names) for line in program.lines)
    return Outcome(errors, *observe(names))


def namespace(device: str) -> dict[str, Any]:
    """Return the globals for a program's lines, with functions that create tensors on `device`."""
    return {
        "F": F,
        "checkpoint": checkpoint,
        "device": torch.device(device),
        "torch": torch,
        "specials": lambda *arguments: specials(*arguments).to(device),
        "values": lambda *arguments: values(*arguments).to(device),
    }


def run_line(line: str, names: dict[str, Any]) -> str:
    """Run one line; return the type of its error, or an empty string."""
    try:
        exec(line, names)  # The line is trusted, because the generator wrote it.
    except Exception as error:  # noqa: BLE001 - the types of all errors are compared
        return type(error).__name__
    return ""


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return a CPU tensor of multiples of 1/8, small integers or booleans, determined by `seed`."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-16, 17, shape, generator=generator)
    if dtype is torch.bool:
        return numbers > 0
    if dtype is torch.uint8:
        return numbers.abs().to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return (numbers / 8).to(dtype)
    return numbers.to(dtype)


def specials(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return a tensor of special values: infinities, NaN, signed zeros, or integer limits."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        table = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -0.5])
    elif dtype is torch.bool:
        table = torch.tensor([False, True])
    else:
        table = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1], dtype=dtype)
    return table[torch.randint(len(table), shape, generator=generator)].to(dtype).clone()


def observe(names: dict[str, Any]) -> tuple[dict[str, Observed], dict[str, str]]:
    """Return the tensors in a namespace, and the error type of each tensor that cannot be read."""
    tensors, unreadable = {}, {}
    for name, tensor in list(names.items()):
        if isinstance(tensor, torch.Tensor):
            try:
                tensors[name] = _observed(tensor)
            except Exception as error:  # noqa: BLE001 - the types of all errors are compared
                # Reading can also fail on the CPU: autograd rejects some views after their base has
                # changed.
                unreadable[name] = type(error).__name__
    return tensors, unreadable


def _observed(tensor: torch.Tensor) -> Observed:
    gradient = tensor.grad if tensor.is_leaf else None
    return Observed(
        tensor.detach().cpu().clone(),
        _stride(tensor),
        # The offset of an empty tensor is arbitrary: torch's meta kernels and CPU kernels compute
        # it from different strides.
        tensor.storage_offset() if tensor.numel() else 0,
        tensor.requires_grad,
        None if gradient is None else gradient.detach().cpu().clone(),
    )


def _stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of the dimensions of size two or more; other strides have no effect."""
    if not tensor.numel():
        return ()
    return tuple(
        stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
    )
