# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fbcode import outcomes
from tests.upstream.distributed import catalogue, comparison, page
from tests.upstream.distributed.comparison import Verdict
from tools.presubmit.results import Outcome

_FILE = "test_device_mesh"


def _write(folder: Path, test: str, cpu: Outcome, tpu: Outcome) -> None:
    for device, outcome in (("cpu", cpu), ("tpu", tpu)):
        row = outcomes.Ran("suite::Class", test, device, outcome, f"reason on {device}")
        outcomes.append(comparison.results_file(folder, _FILE, device), [row])


@pytest.mark.parametrize(
    ("cpu", "tpu", "verdict"),
    [
        (Outcome.PASSED, Outcome.PASSED, Verdict.PASSED),
        (Outcome.SKIPPED, Outcome.PASSED, Verdict.PASSED),
        (Outcome.FAILED, Outcome.PASSED, Verdict.PASSED),
        (Outcome.PASSED, Outcome.FAILED, Verdict.FAILED),
        (Outcome.SKIPPED, Outcome.FAILED, Verdict.FAILED),
        (Outcome.FAILED, Outcome.FAILED, Verdict.OTHER_RELEASE),
        (Outcome.PASSED, Outcome.SKIPPED, Verdict.SKIPPED),
    ],
)
def test_the_cpu_decides_whether_a_test_applies(
    tmp_path: Path, cpu: Outcome, tpu: Outcome, verdict: Verdict
) -> None:
    _write(tmp_path, "test", cpu, tpu)
    (row,) = comparison.rows(tmp_path)
    assert row.verdict is verdict
    assert row.area == "device_mesh"


def test_the_page_has_counts_and_reasons(tmp_path: Path) -> None:
    _write(tmp_path, "good", Outcome.PASSED, Outcome.PASSED)
    _write(tmp_path, "bad", Outcome.PASSED, Outcome.FAILED)
    _write(tmp_path, "old", Outcome.FAILED, Outcome.FAILED)
    page.write(comparison.rows(tmp_path), tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| device_mesh | 3 | 2 | 1 | 50.0 % | 1 | 0 | 1 | 0 |" in text
    assert "| reason on tpu | 1: `suite::Class::bad` |" in text
    assert "| reason on cpu | 1: `suite::Class::old` |" in text


def test_names_of_areas_and_files() -> None:
    assert catalogue.chosen(["c10d", "test/distributed/test_device_mesh.py"]) == [
        "test_c10d_common",
        "test_device_mesh",
    ]
    with pytest.raises(ValueError, match="'nothing' is not one of the files"):
        catalogue.chosen(["nothing"])


def test_every_exception_has_a_reason() -> None:
    entries = json.loads(Path(comparison.__file__).with_name("exceptions.json").read_text())
    assert all(set(entry) == {"tests", "reason"} and entry["reason"] for entry in entries)
