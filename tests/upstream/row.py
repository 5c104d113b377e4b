# SPDX-License-Identifier: Apache-2.0
"""One line of the outcome: a module or an optimizer, a dtype, and what else tells rows apart."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch


class Table(enum.Enum):
    MODULES = "modules"
    OPTIMIZERS = "optimizers"


class Outcome(enum.Enum):
    PASSED = "passed"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    # The CPU refuses every sample: there is nothing to compare with.
    EMPTY = "empty"


@dataclass(frozen=True)
class Row:
    """`variant`: `train` or `eval` of a module, the implementation of an optimizer."""

    table: Table
    name: str
    dtype: torch.dtype
    variant: str

    def __str__(self) -> str:
        """As exceptions.json and the command name it."""
        return f"{self.name} {str(self.dtype).removeprefix('torch.')} {self.variant}"


@dataclass(frozen=True)
class Result:
    """`samples`: those that the CPU accepts. `message`: the first that went wrong."""

    row: Row
    outcome: Outcome
    samples: int
    message: str = ""


class Mismatch(Exception):
    """Something on the device is not what it is on the CPU; says what and how much."""


def outcome_of(error: Exception) -> Outcome:
    """Return what an exception out of a row's run stands for."""
    if isinstance(error, Mismatch):
        return Outcome.WRONG
    return Outcome.UNSUPPORTED if isinstance(error, NotImplementedError) else Outcome.CRASHED


def first_line(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its words."""
    words = (str(error).strip().splitlines() or [""])[0][:300]
    return words if isinstance(error, Mismatch) else f"{type(error).__name__}: {words}"
