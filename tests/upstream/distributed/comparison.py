# SPDX-License-Identifier: Apache-2.0
"""Compare the outcomes of the tests on tpu with those on the CPU."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.fbcode import outcomes
from tests.upstream.distributed import catalogue, ranks
from tools.presubmit.results import Outcome

_EXCEPTIONS = Path(__file__).with_name("exceptions.json")


class Verdict(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known"  # fails for a cause in exceptions.json
    OTHER_RELEASE = "other release"  # also fails on the CPU, as torch is newer
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True)
class Row:
    """A test with its outcome on tpu. `name` is file::Class::test."""

    file: str
    name: str
    verdict: Verdict
    reason: str
    seconds: float

    @property
    def area(self) -> str:
        return catalogue.area(self.file)

    @property
    def applies(self) -> bool:
        return self.verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.KNOWN)


def results_file(folder: Path, file: str, device: str) -> Path:
    """Return the results file of a test file on a device."""
    return folder / f"{file.replace('/', '.')}.{device}.jsonl"


def rows(folder: Path) -> list[Row]:
    """Return all tests that ran on both devices."""
    known = json.loads(
        __spec__.loader.get_data(str(_EXCEPTIONS))  # type: ignore[union-attr]
    )
    result = []
    for file in catalogue.chosen([]):
        on_cpu, on_tpu = (
            outcomes.read(results_file(folder, file, device)) for device in ranks.DEVICES
        )
        result += [_row(file, on_cpu[key], on_tpu[key], known) for key in on_tpu if key in on_cpu]
    return result


def _row(file: str, cpu: outcomes.Ran, tpu: outcomes.Ran, known: Sequence[dict[str, str]]) -> Row:
    name = f"{tpu.suite}::{tpu.test}"
    cause = next((entry["reason"] for entry in known if fnmatchcase(name, entry["tests"])), "")
    reason = tpu.reason
    if tpu.outcome is Outcome.PASSED:
        verdict = Verdict.PASSED
    elif tpu.outcome is Outcome.SKIPPED:
        verdict = Verdict.SKIPPED
    elif cpu.outcome is Outcome.FAILED:
        verdict, reason = Verdict.OTHER_RELEASE, cpu.reason
    elif cause:
        verdict, reason = Verdict.KNOWN, cause
    else:
        verdict = Verdict.FAILED
    return Row(file, name, verdict, reason, tpu.seconds)
