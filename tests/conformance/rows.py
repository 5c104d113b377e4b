# SPDX-License-Identifier: Apache-2.0
"""What one check of an operator with one dtype came to."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, replace


class Outcome(enum.Enum):
    PASSED = "passed"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    SLOW = "slow"
    EMPTY = "empty"


# The golden has every check of the WHOLE dtypes, and only `forward`, `strides` and `refused` of
# the FORWARD dtypes.
WHOLE = ("float32", "bfloat16", "float64", "int64", "bool", "complex64")
FORWARD = ("float16", "complex128", "int32", "int16", "int8", "uint8")
DTYPES = (*WHOLE, *FORWARD)

# `strides` is judged in the run of `forward`; `fused` is a check of float32 alone.
CHECKS = ("forward", "strides", "backward", "out", "inplace", "refused", "fused")


@dataclass(frozen=True)
class Row:
    """`samples`: those taken that the CPU itself accepts. `message`: the first that went wrong.

    `taken`: how many of op_db's `total` were run. They come in one order, however many are taken:
    `first` is the position in it of the first that went wrong.
    """

    op: str
    dtype: str
    check: str
    outcome: Outcome
    samples: int = 0
    passed: int = 0
    message: str = ""
    taken: int = 0
    total: int = 0
    first: int | None = None

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

    @property
    def whole(self) -> bool:
        """Whether every sample of op_db's was run."""
        return self.taken == self.total

    @property
    def ended(self) -> bool:
        """Whether the process ended, or was ended, by the last sample that was taken."""
        return self.outcome in (Outcome.CRASHED, Outcome.SLOW) and self.first == self.taken - 1

    def failing(self, taken: int) -> int | None:
        """Return `first` as it is where only so many are taken."""
        return None if self.first is None or self.first >= taken else self.first

    def __str__(self) -> str:
        counts = f"{self.passed}/{self.samples}"
        return f"{' '.join(self.key)} {self.outcome.value} {counts} {self.message}".rstrip()


def add(row: Row, outcome: Outcome, index: int | None, words: str) -> Row:
    """Return a row with one sample more; of those that go wrong, the first one's words stay."""
    good = outcome is Outcome.PASSED
    more = replace(row, samples=row.samples + 1, passed=row.passed + good, taken=row.taken + 1)
    if row.first is not None:
        return more
    if good:
        return replace(more, outcome=outcome)
    message = words if index is None else f"sample {index}: {words}"
    return replace(more, outcome=outcome, message=message, first=row.taken)


def to_json(row: Row) -> str:
    return json.dumps(asdict(row) | {"outcome": row.outcome.value})


def from_json(text: str) -> Row:
    fields = json.loads(text)
    return Row(**fields | {"outcome": Outcome(fields["outcome"])})
