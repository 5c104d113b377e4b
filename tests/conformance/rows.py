# SPDX-License-Identifier: Apache-2.0
"""What one check of an operator with one dtype came to."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass


class Outcome(enum.Enum):
    PASSED = "passed"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    SLOW = "slow"
    EMPTY = "empty"


DTYPES = ("float32", "bfloat16", "float64", "int64", "bool", "complex64")

# `strides` is judged in the run of `forward`.
CHECKS = ("forward", "strides", "backward", "out", "inplace")


@dataclass(frozen=True)
class Row:
    """`samples`: those that the CPU itself accepts. `message`: the first that went wrong."""

    op: str
    dtype: str
    check: str
    outcome: Outcome
    samples: int = 0
    passed: int = 0
    message: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.op, self.dtype, self.check

    @property
    def counts(self) -> bool:
        """Whether there was anything to check."""
        return self.outcome is not Outcome.EMPTY

    @property
    def good(self) -> bool:
        return self.outcome is Outcome.PASSED

    def __str__(self) -> str:
        counts = f"{self.passed}/{self.samples}"
        return f"{' '.join(self.key)} {self.outcome.value} {counts} {self.message}".rstrip()


def to_json(row: Row) -> str:
    return json.dumps(asdict(row) | {"outcome": row.outcome.value})


def from_json(text: str) -> Row:
    fields = json.loads(text)
    return Row(**fields | {"outcome": Outcome(fields["outcome"])})
