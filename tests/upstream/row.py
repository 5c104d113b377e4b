# SPDX-License-Identifier: Apache-2.0
"""Rows and their results. A row is a module or optimizer, with the dtype and variant to test."""

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
    # The CPU rejects every sample, so nothing can be compared.
    EMPTY = "empty"


@dataclass(frozen=True)
class Row:
    """A module or an optimizer, with the dtype and the variant to test.

    `variant` is `train` or `eval` for a module, and the implementation for an optimizer.
    """

    table: Table
    name: str
    dtype: torch.dtype
    variant: str

    def __str__(self) -> str:
        """Return the row's name, as used in exceptions.json and in run.py's output."""
        return f"{self.name} {str(self.dtype).removeprefix('torch.')} {self.variant}"


@dataclass(frozen=True)
class Result:
    """The result of testing a row.

    `samples` is the number of samples that ran, excluding those that the CPU rejects. `message`
    describes the first failure. `seconds` is the CPU time, including compilation.
    """

    row: Row
    outcome: Outcome
    samples: int
    message: str = ""
    seconds: float = 0.0


class Mismatch(Exception):
    """Raised if a result on tpu differs. The message names the result and the difference."""


def judge(
    row: Row,
    samples: Iterable[tuple[str, S]],
    *,
    expected: Callable[[S], E | None],
    compare: Callable[[S, E, bool], None],
) -> Result:
    """Run samples of a row, each given with its name. The row fails if any sample fails.

    `expected` returns the result on the CPU, or None if the CPU rejects the sample. `compare`
    raises an error if the result on tpu differs. Its last argument is true for the first sample
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
    """Return the outcome of a row whose test raised `error`."""
    if isinstance(error, Mismatch):
        return Outcome.WRONG
    return Outcome.UNSUPPORTED if isinstance(error, NotImplementedError) else Outcome.CRASHED


def first_line(error: BaseException) -> str:
    """Return an error's type and the first line of its message. For a Mismatch, omit the type."""
    line = (str(error).strip().splitlines() or [""])[0][:300]
    return line if isinstance(error, Mismatch) else f"{type(error).__name__}: {line}"
