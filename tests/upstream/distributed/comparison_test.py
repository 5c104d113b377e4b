# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.fbcode import outcomes
from tests.upstream.distributed import catalogue, comparison, page
from tests.upstream.distributed.comparison import Outcomes, Verdict
from tools.presubmit.results import Outcome

_FILE = "test_device_mesh"
_PASSED, _FAILED, _SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def _ran(folder: Path, test: str, device: str, outcome: Outcome, reason: str = "") -> None:
    row = outcomes.Ran("suite::Class", test, device, outcome, reason)
    outcomes.append(comparison.results_file(folder, _FILE, device), [row])


@pytest.mark.parametrize(
    ("tpu", "cpu", "verdict"),
    [
        ((_PASSED, ""), None, Verdict.PASSED),
        ((_SKIPPED, "needs Triton"), None, Verdict.SKIPPED),
        ((_FAILED, "AttributeError: x"), None, Verdict.FAILED),
        ((_FAILED, "AttributeError: x"), (_PASSED, ""), Verdict.FAILED),
        ((_FAILED, "AttributeError: x"), (_SKIPPED, "needs Triton"), Verdict.FAILED),
        ((_FAILED, "AttributeError: x"), (_FAILED, "AttributeError: x"), Verdict.OTHER_RELEASE),
        ((_FAILED, "AttributeError: x"), (_FAILED, "AttributeError: y"), Verdict.FAILED),
        ((_FAILED, "ValueError: on tpu"), (_FAILED, "ValueError: on cpu"), Verdict.OTHER_RELEASE),
        ((_FAILED, "E: [[-0.1,  2.5]"), (_FAILED, "E: [[3.0, -1e-05]"), Verdict.OTHER_RELEASE),
        (
            (_FAILED, "E: f, with tensor([ 1., -2.], device='tpu:0'), tensor([[1.],"),
            (_FAILED, "E: f, with tensor([1., 2.], size=(2,)), tensor(nan"),
            Verdict.OTHER_RELEASE,
        ),
        (
            (_FAILED, "E: f, with tensor([1.]): x"),
            (_FAILED, "E: f, with tensor([1.]): y"),
            Verdict.FAILED,
        ),
    ],
)
def test_the_same_error_on_the_cpu_excuses_a_failure(
    tmp_path: Path,
    tpu: tuple[Outcome, str],
    cpu: tuple[Outcome, str] | None,
    verdict: Verdict,
) -> None:
    _ran(tmp_path, "test", "tpu", *tpu)
    if cpu:
        _ran(tmp_path, "test", "cpu", *cpu)
    (row,) = comparison.judge(comparison.collect(tmp_path))
    assert row.verdict is verdict
    assert row.area == "device_mesh"


def test_a_name_that_contains_the_device_matches_its_name_on_the_cpu(tmp_path: Path) -> None:
    _ran(tmp_path, "test_op_db_abs_tpu_float32", "tpu", _FAILED, "E: x")
    _ran(tmp_path, "test_op_db_abs_cpu_float32", "cpu", _FAILED, "E: x")
    (row,) = comparison.judge(comparison.collect(tmp_path))
    assert row.verdict is Verdict.OTHER_RELEASE
    assert comparison.on_the_cpu(("suite", "test_tpu_name")) == ("suite", "test_tpu_name")


def test_an_expected_failure_has_a_reason_on_the_page(tmp_path: Path) -> None:
    _ran(tmp_path, "test", "tpu", _SKIPPED)
    rows = comparison.judge(comparison.collect(tmp_path))
    assert "| upstream expects the test to fail, and it fails | 1: " in page.text(rows, [])


def test_outcomes_are_saved_and_loaded(tmp_path: Path) -> None:
    tests = [
        Outcomes(_FILE, "f::C::good", _PASSED, use="tpu"),
        Outcomes(_FILE, "f::C::host", _PASSED, use="host"),
        Outcomes(_FILE, "f::C::unknown", _PASSED),
        Outcomes(_FILE, "f::C::bad", _FAILED, "reason", _FAILED, "other reason"),
        Outcomes(_FILE, "f::C::alone", _FAILED, "reason"),
        Outcomes("test_c10d_common", "f::C::skipped", _SKIPPED, "needs | pipes"),
    ]
    file = tmp_path / "results.json"
    comparison.save(tests, file, whole=[_FILE])
    assert {*comparison.load(file)} == {*tests}
    assert comparison.incomplete(file) == ["test_c10d_common"]


def test_saved_reasons_do_not_have_the_folders_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    reason = 'File "/tmp/x/torch/site/torch/nn/linear.py", line 8: a/torch/b'
    comparison.save([Outcomes(_FILE, "f::C::bad", _FAILED, reason)], file, whole=[])
    (test,) = comparison.load(file)
    assert test.tpu_reason == 'File "torch/nn/linear.py", line 8: a/torch/b'


def test_a_run_updates_only_its_files_in_the_results(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    kept = Outcomes("pipelining/test_stage", "s::C::kept", _PASSED)
    old = Outcomes(_FILE, "f::C::gone", _PASSED)
    part = Outcomes("test_c10d_common", "c::C::part", _PASSED)
    comparison.save([old, part, kept], file, whole=[_FILE, kept.file])
    new = Outcomes(_FILE, "f::C::new", _PASSED)
    tests, whole = comparison.updated(file, [new], whole=[])
    assert tests == [new, part, kept]
    assert whole == [kept.file]


def test_the_page_has_counts_and_reasons() -> None:
    tests = [
        Outcomes(_FILE, "f::C::good", _PASSED, use="tpu"),
        Outcomes(_FILE, "f::C::plain", _PASSED, use="host"),
        Outcomes(_FILE, "f::C::bad", _FAILED, "reason on tpu"),
        Outcomes(_FILE, "f::C::old", _FAILED, "removed", _FAILED, "removed"),
    ]
    text = page.text(comparison.judge(tests), ["test_c10d_common"])
    assert "| device_mesh | 4 | 3 | 2 | 66.7 % | 1 | 1 | 0 | 0 | 1 | 0 |" in text
    assert "| test_device_mesh | 4 | 3 | 2 | 66.7 % | 1 | 1 | 0 | 0 | 1 | 0 |" in text
    assert "Of the 2 passed tests, 1 use the device, and 1 never touch it.\n" in text
    assert "| reason on tpu | 1: `f::C::bad` |" in text
    assert "| removed | 1: `f::C::old` |" in text
    assert "Run in part: `test_c10d_common`." in text
    assert "`tensor/parallel/test_tp_style`" in text.partition("Not run: ")[2]


def test_the_table_shows_the_results() -> None:
    table = comparison.text(comparison.RESULTS.with_name("TABLE.md"))
    text = page.text(comparison.judge(comparison.load()), comparison.incomplete())
    assert table == text, (
        "TABLE.md differs from results.json, exceptions.json and not_applicable.json. Run "
        "//tests/upstream/distributed:run with --publish, or correct the entries"
    )


def test_every_failure_in_the_results_has_a_cause() -> None:
    rows = comparison.judge(comparison.load())
    assert [row.name for row in rows if row.verdict is Verdict.FAILED] == []


@pytest.mark.parametrize("entries", [comparison.exceptions(), comparison.rules()])
def test_every_entry_has_a_reason_and_a_failing_test(entries: list[dict[str, str]]) -> None:
    failed = [test.name for test in comparison.load() if test.tpu is Outcome.FAILED]
    for entry in entries:
        assert set(entry) == {"tests", "reason"}
        assert entry["reason"]
        assert any(fnmatchcase(name, entry["tests"]) for name in failed), entry["tests"]


def test_names_of_areas_and_files() -> None:
    assert catalogue.chosen(["c10d", "test/distributed/test_device_mesh.py"]) == [
        "test_c10d_common",
        "test_device_mesh",
    ]
    with pytest.raises(ValueError, match="'nothing' is not one of the files"):
        catalogue.chosen(["nothing"])
