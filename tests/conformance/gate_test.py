# SPDX-License-Identifier: Apache-2.0
"""The golden still holds.

The default run takes one sample of every operator in float32. The full one takes several, every
refusal, and a part of the other dtypes and checks.
"""

from collections.abc import Callable

import pytest

from tests.conformance import golden
from tests.conformance.rows import CHECKS, DTYPES, WHOLE
from tests.conformance.sweep import sweep, tasks
from tools.par.testing import budget

UPDATE = "Fix it; or if it is meant, ./bazelw run //tests/conformance:run -- --update"

# (dtypes, checks, which part of how many): each is a test of its own, and a process of its own.
FORWARD = [(("float32",), ("forward",), (part, 8)) for part in range(8)]
# A prime number of parts: others would take the same operators for each dtype.
REST = [
    (WHOLE[1:], ("forward",), (0, 37)),
    (WHOLE, ("backward",), (0, 37)),
    (WHOLE, ("out",), (0, 37)),
    (WHOLE, ("inplace",), (0, 37)),
    (DTYPES[len(WHOLE) :], ("forward",), (0, 37)),
    (("float32",), ("fused",), (0, 17)),
]
# Every operator: a refusal that is lost is lost for one operator and dtype. Nothing is compiled
# unless the device accepts what the CPU refuses.
REFUSED = [((dtype,), ("refused",), (0, 1)) for dtype in DTYPES]


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    """In the account of a run these are cases of tpu, which is held against the CPU."""
    record_property("device", "tpu")


@pytest.mark.parametrize(
    ("dtypes", "checks", "part"),
    [*FORWARD, *REST, *REFUSED] if budget.is_full() else FORWARD,
    ids=lambda value: "-".join(map(str, value)) if len(value) < len(CHECKS) else "all",
)
def test_outcomes_are_those_of_the_golden(
    dtypes: tuple[str, ...], checks: tuple[str, ...], part: tuple[int, int]
) -> None:
    wanted = tasks(["*"], dtypes, checks, part)
    assert wanted
    known = golden.read()
    samples = None if budget.is_full() else 1
    found = sweep(wanted, samples=samples, seconds=120, file=None, again=False)
    surprises = [words for row in found if (words := golden.surprise(row, known))]
    assert not surprises, "\n".join([*surprises, UPDATE])
