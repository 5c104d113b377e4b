# SPDX-License-Identifier: Apache-2.0
"""The `Row` class: the outcome of one check of one operator in one dtype."""

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


# The golden files contain every check for the WHOLE dtypes. For the FORWARD dtypes, they contain
# only `forward`, `strides` and `refused`.
WHOLE = ("float32", "bfloat16", "float64", "int64", "bool", "complex64")
FORWARD = ("float16", "complex128", "int32", "int16", "int8", "uint8")
DTYPES = (*WHOLE, *FORWARD)

# A run of `forward` also checks `strides`. `fused` and `permuted` exist in float32 only.
CHECKS = ("forward", "strides", "backward", "out", "inplace", "refused", "fused", "permuted")


@dataclass(frozen=True)
class Row:
    """The outcome of a check.

    `total` is the number of op_db's samples, and `taken` is the number that were run. `samples` is
    how many of the latter count: those that the CPU accepts or, in the `refused` check, rejects.
    The order of the samples is fixed. `first` is the position of the first failure, which `message`
    describes.
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
        """Whether at least one sample counts (see `samples` above)."""
        return self.outcome is not Outcome.EMPTY

    @property
    def good(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def whole(self) -> bool:
        """Whether all of op_db's samples were run."""
        return self.taken == self.total

    @property
    def ended(self) -> bool:
        """Whether the last sample crashed the process, or was running when it was killed."""
        return self.outcome in (Outcome.CRASHED, Outcome.SLOW) and self.first == self.taken - 1

    def failing(self, taken: int) -> int | None:
        """Return the position of the first failure among the first `taken` samples, or None."""
        return None if self.first is None or self.first >= taken else self.first

    def __str__(self) -> str:
        counts = f"{self.passed}/{self.samples}"
        return f"{' '.join(self.key)} {self.outcome.value} {counts} {self.message}".rstrip()


def add(row: Row, outcome: Outcome, index: int | None, message: str) -> Row:
    """Return the row with one more sample added. Keep the message of the first failure."""
    good = outcome is Outcome.PASSED
    more = replace(row, samples=row.samples + 1, passed=row.passed + good, taken=row.taken + 1)
    if row.first is not None:
        return more
    if good:
        return replace(more, outcome=outcome)
    if index is not None:
        message = f"sample {index}: {message}"
    return replace(more, outcome=outcome, message=message, first=row.taken)


def to_json(row: Row) -> str:
    return json.dumps(asdict(row) | {"outcome": row.outcome.value})


def from_json(text: str) -> Row:
    fields = json.loads(text)
    return Row(**fields | {"outcome": Outcome(fields["outcome"])})
