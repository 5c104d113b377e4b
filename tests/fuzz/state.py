# SPDX-License-Identifier: Apache-2.0
"""A program under construction, its tensors on the CPU, and which of them have exact values."""

from __future__ import annotations

from collections.abc import Set
from random import Random
from typing import Any

import torch

from tests.fuzz.program import GRID, LARGEST, Program, namespace, run_line
from tests.fuzz.template import Condition

_MOST_ELEMENTS = 512
# JAX lacks these dtypes, so tpu rejects operations that produce them, such as float16 * 1j.
_ABSENT = (torch.complex32,)


class State:
    """The lines of an unfinished program, and the tensors that they have created on the CPU."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.names: dict[str, Any] = namespace("cpu")
        self.exact: set[str] = set()
        self.by_value: set[str] = set()
        self._next = 0

    def program(self) -> Program:
        """Return the program so far."""
        return Program(tuple(self.lines), frozenset(self.exact), frozenset(self.by_value))

    def fresh(self) -> str:
        """Return a name that the program does not use yet."""
        self._next += 1
        return f"t{self._next}"

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the program's tensors by name, oldest first."""
        return {name: x for name, x in self.names.items() if isinstance(x, torch.Tensor)}

    def pick(self, condition: Condition = lambda _: True, *, exact: bool = False) -> str | None:
        """Return the name of a random tensor that meets `condition`, preferably a recent one."""
        names = [
            name
            for name, tensor in self.tensors().items()
            if (not exact or name in self.exact) and _holds(condition, tensor)
        ]
        if not names:
            return None
        return names[-1 - min(int(self.random.expovariate(0.25)), len(names) - 1)]

    def add(
        self, line: str, *, reads: tuple[str, ...], rounds: bool = False, refused: bool = False
    ) -> bool:
        """Run a line on the CPU. If it raises no error, add it and return True.

        If it raises an error, add it only if `refused` is true, and return False. Drop a line whose
        result has a dtype that tpu lacks, and return False. The tensors that a line creates or
        changes are exact if all tensors in `reads` are exact and `rounds` is false.
        """
        before = {name: _identity(x) for name, x in self.tensors().items()}
        if run_line(line, self.names):
            unwritten = self.tensors().keys() - before.keys()
            for name in unwritten:
                del self.names[name]
            if refused:
                self._add_refused(line, unwritten)
            return False
        unsupported = [name for name, x in self.tensors().items() if x.dtype in _ABSENT]
        if unsupported:
            for name in unsupported:
                del self.names[name]
            return False
        self.lines.append(line)
        exact = not rounds and all(name in self.exact for name in reads)
        touched = [name for name, x in self.tensors().items() if before.get(name) != _identity(x)]
        for name in touched:
            self._judge(name, exact)
        # A tensor that shares storage with an inexact tensor is also inexact.
        rounded = {self._storage(name) for name in touched if name not in self.exact}
        self.exact -= {name for name in self.exact if self._storage(name) in rounded}
        return True

    def add_if_refused(self, line: str, *, by_value: bool = False) -> bool:
        """Add a line if the CPU rejects it; return whether it was added."""
        names = namespace("cpu")
        for before in self.lines:
            run_line(before, names)
        known = set(names)
        if not run_line(line, names):
            return False
        self._add_refused(
            line, {name for name in names.keys() - known if isinstance(names[name], torch.Tensor)}
        )
        if by_value:
            self.by_value.add(line)
        return True

    def forget(self, name: str) -> None:
        """Add a `del` line for a tensor, which may free its storage."""
        self.lines.append(f"del {name}")
        del self.names[name]
        self.exact.discard(name)

    def _add_refused(self, line: str, unwritten: Set[str]) -> None:
        """Add a line that raises, then lines that delete the tensors it created before the error.

        The contents of these tensors are undefined: for example, the CPU may have resized an
        `out=` tensor without writing to it.
        """
        self.lines += [line, *(f"del {name}" for name in sorted(unwritten))]

    def _storage(self, name: str) -> int:
        return int(self.names[name].untyped_storage().data_ptr())

    def _judge(self, name: str, exact: bool) -> None:
        tensor = self.names[name]
        if tensor.numel() > _MOST_ELEMENTS:
            self.names[name] = tensor = tensor.flatten()[:_MOST_ELEMENTS]
            self.lines.append(f"{name} = {name}.flatten()[:{_MOST_ELEMENTS}]")
        if (
            tensor.is_floating_point()
            and float(tensor.detach().abs().nan_to_num().amax() if tensor.numel() else 0) > LARGEST
        ):
            if not tensor.requires_grad:
                self.lines.append(f"{name} = {name}.clamp(-8, 8)")
                self.names[name] = tensor = tensor.clamp(-8, 8)
            exact = False
        if exact and on_grid(tensor):
            self.exact.add(name)
        else:
            self.exact.discard(name)


def _identity(tensor: torch.Tensor) -> tuple[int, int]:
    # An inference tensor has no version counter. It needs none here, because only code in inference
    # mode can write to it.
    return id(tensor), 0 if tensor.is_inference() else tensor._version


def _holds(condition: Condition, tensor: torch.Tensor) -> bool:
    try:
        return condition(tensor)
    except RuntimeError:  # Autograd refuses to read some views.
        return False


def on_grid(tensor: torch.Tensor) -> bool:
    """Return whether every device computes with the tensor's values without rounding."""
    if tensor.dtype in (torch.bfloat16, torch.float16):
        return False
    if tensor.is_complex() or not tensor.is_floating_point():
        return not tensor.is_complex()
    finite = tensor.detach().double()
    finite = finite[torch.isfinite(finite)]
    scaled = finite / GRID
    return bool((scaled == scaled.round()).all() and (finite.abs() <= LARGEST).all())
