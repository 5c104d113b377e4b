# SPDX-License-Identifier: Apache-2.0
"""One line of the outcome: a module or an optimizer, a dtype, and what else tells rows apart."""

from __future__ import annotations

import enum
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch

S = TypeVar("S")
E = TypeVar("E")


class Table(enum.Enum):
    MODULES = "modules"
    OPTIMIZERS = "optimizers"
    CONFIGURATIONS = "configurations"


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
    """`samples`: those that the CPU accepts. `message`: the first that went wrong.

    `seconds`: of the processor, with the compiler's.
    """

    row: Row
    outcome: Outcome
    samples: int
    message: str = ""
    seconds: float = 0.0


class Mismatch(Exception):
    """Something on the device is not what it is on the CPU; says what and how much."""


def judge(
    row: Row,
    samples: Iterable[tuple[str, S]],
    *,
    expected: Callable[[S], E | None],
    compare: Callable[[S, E, bool], None],
) -> Result:
    """Run named samples; where one goes wrong, the row does.

    `expected` returns what the CPU gives, None where it refuses the sample; `compare` raises, and
    is told which sample is the first that counts.
    """
    tried, began = 0, time.process_time()
    for name, sample in samples:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = expected(sample)
                if theirs is None:
                    continue
                tried += 1
                compare(sample, theirs, tried == 1)
        except Exception as error:  # noqa: BLE001 - whatever comes is the row's result
            message, seconds = f"{name}: {first_line(error)}", time.process_time() - began
            return Result(row, outcome_of(error), tried, message, seconds)
    outcome = Outcome.PASSED if tried else Outcome.EMPTY
    return Result(row, outcome, tried, seconds=time.process_time() - began)


def outcome_of(error: Exception) -> Outcome:
    """Return what an exception out of a row's run stands for."""
    if isinstance(error, Mismatch):
        return Outcome.WRONG
    return Outcome.UNSUPPORTED if isinstance(error, NotImplementedError) else Outcome.CRASHED


def first_line(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its words."""
    words = (str(error).strip().splitlines() or [""])[0][:300]
    return words if isinstance(error, Mismatch) else f"{type(error).__name__}: {words}"
