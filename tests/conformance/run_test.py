# SPDX-License-Identifier: Apache-2.0

import multiprocessing
from pathlib import Path

import pytest

from tests.conformance import rows, run, sweep
from tests.conformance.rows import Outcome
from tests.conformance.worker import Worker

ONE = ["--ops", "neg", "--dtype", "int64", "--check", "forward", "--samples", "1"]


@pytest.mark.full
def test_outcomes_are_kept_and_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outcomes.jsonl"
    assert run.main([*ONE, "--rows", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "int64 forward: 1 of 1 passed",
        "int64 strides: 1 of 1 passed",
    ]
    before = file.read_text()
    assert run.main([*ONE, "--rows", str(file), "--verbose"]) == 0
    assert "neg int64 forward passed 1/1 (0.0 s)" in capsys.readouterr().out
    assert file.read_text() == before


@pytest.mark.full
def test_what_failed_is_run_again_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outcomes.jsonl"
    row = rows.Row("neg", "int64", "forward", Outcome.WRONG, 1, 0, "sample 0: off", 1, 1, 0)
    strides = rows.Row("neg", "int64", "strides", Outcome.PASSED, 1, 1, "", 1, 1)
    file.write_text("".join(rows.to_json(r) + "\n" for r in (row, strides)))
    assert run.main([*ONE, "--rows", str(file)]) == 1
    shown = capsys.readouterr()
    assert "neg int64 forward wrong 0/1 sample 0: off: passes in the golden" in shown.err
    assert run.main([*ONE, "--rows", str(file), "--again"]) == 0
    assert sweep.read(file)[row.key].outcome is Outcome.PASSED


@pytest.mark.full
def test_what_had_fewer_samples_is_run_again(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    command = ["--ops", "neg,diff", "--dtype", "bool", "--check", "forward", "--rows", str(file)]
    assert run.main(command) == 0
    before = sweep.read(file)
    assert [row.taken for row in before.values()] == [1, 1]
    assert run.main([*command, "--samples", "3"]) == 0
    after = sweep.read(file)
    assert {row.taken for row in after.values()} == {3}
    lines = file.read_text()
    assert run.main([*command, "--samples", "2"]) == 0
    assert file.read_text() == lines


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--ops", "no_such"]) == 1
    assert capsys.readouterr().err == "run: no operator no_such in op_db. See --list\n"


def test_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--ops", "div.*,neg", "--dtype", "float32", "--list"]) == 0
    assert capsys.readouterr().out.split() == [
        "div.no_rounding_mode",
        "div.trunc_rounding",
        "div.floor_rounding",
        "neg",
    ]


def test_shards_are_all_there_is() -> None:
    complete = sweep.tasks(["fft.*"], ["float32"], ["forward", "out"], (0, 1))
    parts = [sweep.tasks(["fft.*"], ["float32"], ["forward", "out"], (i, 3)) for i in range(3)]
    assert sorted(map(str, complete)) == sorted(str(task) for part in parts for task in part)
    assert len(parts[0]) - len(parts[2]) <= 1


@pytest.mark.full
def test_a_process_that_dies_or_hangs_is_replaced() -> None:
    with Worker(seconds=300) as worker:
        assert worker.run("neg", "int64", "forward", 1)[0].good
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        dead = worker.run("neg", "int64", "inplace", 1)
        assert [row.outcome for row in dead] == [Outcome.CRASHED]
        assert dead[0].message == "the process ended with status -9"
        assert worker.run("neg", "int64", "inplace", 1)[0].good
    assert multiprocessing.active_children() == []
    with Worker(seconds=0) as worker:
        late = worker.run("neg", "int64", "forward", 1)
    assert [row.outcome for row in late] == [Outcome.SLOW, Outcome.SLOW]
    assert late[0].message == "more than 0 s"
