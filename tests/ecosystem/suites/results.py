# SPDX-License-Identifier: Apache-2.0
"""Read and write results.json, which contains each suite's test counts and failures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.ecosystem.results import locked_for_writing, one_line
from tests.ecosystem.suites.catalogue import Suite
from tests.fbcode.outcomes import Ran
from tools.presubmit.results import Outcome

FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Failure:
    """A test that fails on tpu. On the CPU, it passes or, if `skipped_on_cpu`, is skipped.

    `error` is the first line of its error.
    """

    test: str
    error: str
    skipped_on_cpu: bool = False


@dataclass(frozen=True)
class Result:
    """The outcome of a suite. `library` is the suite's name.

    `tpu_passed` and `tpu_skipped` count only tests that pass on the CPU. `more_passed` counts tests
    that pass on tpu but are skipped on the CPU, most of them because they need an accelerator.
    """

    library: str
    version: str
    cpu_passed: int
    cpu_failed: int
    cpu_skipped: int
    tpu_passed: int
    tpu_skipped: int
    more_passed: int
    failures: tuple[Failure, ...]


Tests = Mapping[tuple[str, str], Ran]


def summarize(suite: Suite, cpu: Tests, tpu: Tests) -> Result:
    """Compare the outcomes on both devices. A test that did not run on tpu counts as a failure."""
    counts = {kind: sum(ran.outcome is kind for ran in cpu.values()) for kind in Outcome}
    sums = {(on_cpu, kind): 0 for on_cpu in Outcome for kind in Outcome}
    failures = []
    for key, ran in sorted(cpu.items()):
        if ran.outcome is Outcome.FAILED:
            continue
        other = tpu.get(key)
        if other is not None and other.outcome is not Outcome.FAILED:
            sums[ran.outcome, other.outcome] += 1
        else:
            error = other.reason if other is not None else "it was not collected"
            skipped = ran.outcome is Outcome.SKIPPED
            failures.append(Failure("::".join(key), one_line(error), skipped))
    return Result(
        suite.name,
        suite.version,
        cpu_passed=counts[Outcome.PASSED],
        cpu_failed=counts[Outcome.FAILED],
        cpu_skipped=counts[Outcome.SKIPPED],
        tpu_passed=sums[Outcome.PASSED, Outcome.PASSED],
        tpu_skipped=sums[Outcome.PASSED, Outcome.SKIPPED],
        more_passed=sums[Outcome.SKIPPED, Outcome.PASSED],
        failures=tuple(failures),
    )


def read(file: Path = FILE) -> list[Result]:
    """Read the results. Raises a ValueError if the file is malformed."""
    try:
        return [
            Result(**{**row, "failures": tuple(Failure(**one) for one in row["failures"])})
            for row in json.loads(file.read_text(encoding="utf-8"))
        ]
    except (TypeError, KeyError) as error:
        raise ValueError(f"{file}: it is not a list of results ({error}). Run run.py") from error


def record(result: Result, file: Path = FILE) -> None:
    """Add or replace a suite's result in the file. Other processes may do so concurrently."""
    with locked_for_writing(file):
        known = {one.library: one for one in (read(file) if file.exists() else [])}
        known[result.library] = result
        write(known.values(), file)


def write(results: Iterable[Result], file: Path = FILE) -> None:
    """Sort the results and write them atomically."""
    rows = [asdict(result) for result in sorted(results, key=lambda result: result.library)]
    temporary = file.with_name(f"{file.name}.part")
    temporary.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    temporary.replace(file)
