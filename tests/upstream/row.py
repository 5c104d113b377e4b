# SPDX-License-Identifier: Apache-2.0
"""Rows and their results. A row is a module or an optimizer, with a dtype and a variant."""

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
    # The CPU refuses every sample, so nothing can be compared.
    EMPTY = "empty"


@dataclass(frozen=True)
class Row:
    """A row. `variant` is `train` or `eval` for a module, the implementation for an optimizer."""

    table: Table
    name: str
    dtype: torch.dtype
    variant: str

    def __str__(self) -> str:
        """Return the name in exceptions.json and in the command's output."""
        return f"{self.name} {str(self.dtype).removeprefix('torch.')} {self.variant}"


@dataclass(frozen=True)
class Result:
    """The result of a row.

    `samples` is the number that the CPU accepts, `message` describes the first failure, and
    `seconds` is the CPU time, including compilation.
    """

    row: Row
    outcome: Outcome
    samples: int
    message: str = ""
    seconds: float = 0.0


class Mismatch(Exception):
    """The error for a difference between the device and the CPU.

    It says what differs and by how much.
    """


def judge(
    row: Row,
    samples: Iterable[tuple[str, S]],
    *,
    expected: Callable[[S], E | None],
    compare: Callable[[S, E, bool], None],
) -> Result:
    """Run named samples of a row. If one fails, the row fails.

    `expected` returns the CPU's result, or None if the CPU refuses the sample. `compare` raises an
    error if the device's result differs. Its last argument says whether this is the first sample
    that the CPU accepts.
    """
    tried, began = 0, time.process_time()
    for name, sample in samples:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reference = expected(sample)
                if reference is None:
                    continue
                tried += 1
                compare(sample, reference, tried == 1)
        except Exception as error:  # noqa: BLE001 - any error is the row's result
            message, seconds = f"{name}: {first_line(error)}", time.process_time() - began
            return Result(row, outcome_of(error), tried, message, seconds)
    outcome = Outcome.PASSED if tried else Outcome.EMPTY
    return Result(row, outcome, tried, seconds=time.process_time() - began)


def outcome_of(error: Exception) -> Outcome:
    """Return the result of a row that ended with an error."""
    if isinstance(error, Mismatch):
        return Outcome.WRONG
    return Outcome.UNSUPPORTED if isinstance(error, NotImplementedError) else Outcome.CRASHED


def first_line(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message."""
    line = (str(error).strip().splitlines() or [""])[0][:300]
    return line if isinstance(error, Mismatch) else f"{type(error).__name__}: {line}"
