# SPDX-License-Identifier: Apache-2.0
"""Data classes for cases, the programs that the device compiles for them, and their outcomes."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Outcome(enum.Enum):
    """The outcomes, from best to worst. A sample's outcome is the worst of its programs'."""

    COMPILED = "compiled"
    REFUSED = "refused"
    FAILED = "failed"
    SLOW = "slow"
    ABORTED = "aborted"
    EMPTY = "empty"


DTYPES = ("float32", "bfloat16", "int64", "bool", "complex64")
CHECKS = ("forward", "backward", "module", "step", "kernel")


@dataclass(frozen=True, order=True)
class Case:
    """A check of an operator, module, training step or kernel (`subject`) in one dtype."""

    subject: str
    dtype: str
    check: str

    def __str__(self) -> str:
        return f"{self.subject} {self.dtype} {self.check}"


@dataclass(frozen=True)
class Program:
    """A program that was lowered for a chip's platform.

    Either `digest` is set, or the lowering raised a `refusal` (NotOnTpu) or another `error`.
    """

    name: str
    digest: str = ""
    refusal: str = ""
    error: str = ""


@dataclass(frozen=True)
class Sample:
    """The programs of one sample. `error` is set if the call failed on the `cpu` platform."""

    index: int
    programs: tuple[Program, ...]
    error: str = ""


@dataclass(frozen=True)
class Compilation:
    """The outcome of compiling one program for one chip. `seconds` is CPU time, or 0 if unknown."""

    digest: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Row:
    """The outcome of a case for a chip. `compiled` counts the samples whose programs all compile.

    `first` is the index of the first failing sample, and `message` its error.
    """

    case: Case
    chip: str
    outcome: Outcome
    samples: int = 0
    compiled: int = 0
    first: int | None = None
    message: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.case.subject, self.case.dtype, self.case.check

    @property
    def counts(self) -> bool:
        """Return whether the device accepts at least one sample on the `cpu` platform."""
        return self.outcome is not Outcome.EMPTY

    @property
    def good(self) -> bool:
        return self.outcome is Outcome.COMPILED

    def __str__(self) -> str:
        counts = f"{self.compiled}/{self.samples}"
        return f"{self.chip} {self.case} {self.outcome.value} {counts} {self.message}".rstrip()


def judge(
    case: Case, chip: str, samples: Sequence[Sample], compiled: Mapping[str, Compilation]
) -> Row:
    """Return the row of a case, given its samples and a map from digests to outcomes (`compiled`).

    Raises KeyError if `compiled` lacks one of the case's programs.
    """
    row = Row(case, chip, Outcome.EMPTY)
    for sample in samples:
        outcome, message = _judged(sample, compiled)
        if outcome is Outcome.EMPTY:
            continue
        good = outcome is Outcome.COMPILED
        is_first = not good and row.first is None
        row = Row(
            case,
            chip,
            outcome if is_first or row.outcome is Outcome.EMPTY else row.outcome,
            row.samples + 1,
            row.compiled + good,
            sample.index if is_first else row.first,
            message if is_first else row.message,
        )
    return row


def _judged(sample: Sample, compiled: Mapping[str, Compilation]) -> tuple[Outcome, str]:
    found = [_of(program, compiled) for program in sample.programs]
    worst = max(found, key=lambda pair: _ORDER.index(pair[0]), default=(Outcome.COMPILED, ""))
    if sample.error and worst[0] is Outcome.COMPILED:
        return Outcome.EMPTY, sample.error
    return worst


def _of(program: Program, compiled: Mapping[str, Compilation]) -> tuple[Outcome, str]:
    if program.refusal:
        return Outcome.REFUSED, program.refusal
    if program.error:
        return Outcome.FAILED, f"{program.name}: {program.error}"
    result = compiled[program.digest]
    return result.outcome, f"{program.name}: {result.message}" if result.message else ""


_ORDER = list(Outcome)
