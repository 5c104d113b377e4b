# SPDX-License-Identifier: Apache-2.0
"""Test that the outcomes of some of the checks match the golden files.

The default run covers a quarter of the operators in float32. The full run covers all operators in
float32, every `refused` check, and a subset of the operators for the other dtypes and kinds of
check. It also runs all operators in float32 with programs that another process has compiled.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import golden
from tests.conformance.rows import CHECKS, DTYPES, WHOLE
from tests.conformance.sweep import sweep, tasks
from tools.par.testing import budget

UPDATE = "Fix it. If the change is intended, ./bazelw run //tests/conformance:run -- --update"

# The arguments for `tasks`: (dtypes, checks, (part, parts)). Each tuple is one test case, a sweep
# over part of the operators, which runs in its own process.
FORWARD = [(("float32",), ("forward",), (part, 8)) for part in range(8)]
# `tasks` splits the tasks of all dtypes together. The number of parts is prime, so that the
# selected part does not have the same operators for each dtype.
REST = [
    (WHOLE[1:], ("forward",), (0, 37)),
    (WHOLE, ("backward",), (0, 37)),
    (WHOLE, ("out",), (0, 37)),
    (WHOLE, ("inplace",), (0, 37)),
    (DTYPES[len(WHOLE) :], ("forward",), (0, 37)),
    (("float32",), ("fused",), (0, 17)),
]
# The `permuted` check covers every operator, because the strides from any of torch's meta kernels
# may differ from those of the CPU kernels.
PERMUTED = [(("float32",), ("permuted",), (part, 4)) for part in range(4)]
# The `refused` check covers every operator and dtype, because each rejection is implemented
# separately. It compiles nothing unless the device accepts a sample that the CPU rejects.
REFUSED = [((dtype,), ("refused",), (0, 1)) for dtype in DTYPES]


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    """Record for tools/presubmit/account.py that these test cases run on the `tpu` device."""
    record_property("device", "tpu")


@pytest.mark.parametrize(
    ("dtypes", "checks", "part"),
    [*FORWARD, *REST, *PERMUTED, *REFUSED] if budget.is_full() else FORWARD,
    ids=lambda value: "-".join(map(str, value)) if len(value) < len(CHECKS) else "all",
)
def test_outcomes_are_those_of_the_golden(
    dtypes: tuple[str, ...], checks: tuple[str, ...], part: tuple[int, int]
) -> None:
    selected = tasks(["*"], dtypes, checks, part)
    assert selected
    known = golden.read()
    samples = None if budget.is_full() else 1
    results = sweep(selected, samples=samples, seconds=120, file=None, again=False)
    surprises = [text for row in results if (text := golden.surprise(row, known))]
    assert not surprises, "\n".join([*surprises, UPDATE])


@pytest.mark.full
def test_outcomes_with_programs_from_the_compile_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_TPU_COMPILE_CACHE", str(tmp_path))
    known = golden.read()
    stored: list[set[Path]] = []
    for _ in range(2):  # the second process loads the programs that the first one compiled
        results = sweep(
            tasks(["*"], ("float32",), ("forward",), (0, 1)),
            samples=1,
            seconds=120,
            file=None,
            again=False,
        )
        surprises = [text for row in results if (text := golden.surprise(row, known))]
        assert not surprises, "\n".join([*surprises, UPDATE])
        stored.append({file for file in tmp_path.rglob("*") if file.is_file()})
    assert stored[0] == stored[1] != set()
