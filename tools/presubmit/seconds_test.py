# SPDX-License-Identifier: Apache-2.0
import json
import pathlib

import pytest

from tools.presubmit import seconds
from tools.presubmit.results import ResultsError
from tools.presubmit.seconds import Cost


def _events(folder: pathlib.Path, shards: list[str]) -> pathlib.Path:
    """Write an events file for one target, with one result file per item of `shards`."""
    lines = []
    for number, text in enumerate(shards, start=1):
        file = folder / f"{number}.xml"
        file.write_text(text)
        identity = {"label": "//a:a_test", "run": 1, "shard": number, "attempt": 1}
        result = {
            "status": "PASSED",
            "testAttemptDurationMillis": "2500",
            "testActionOutput": [{"name": "test.xml", "uri": file.as_uri()}],
        }
        lines.append(json.dumps({"id": {"testResult": identity}, "testResult": result}))
    events = folder / "events.json"
    events.write_text("\n".join(lines))
    return events


def _suite(cpu: float | None) -> str:
    row = "" if cpu is None else f"<property name='cpu_seconds' value='{cpu}'/>"
    return f"<testsuite><properties>{row}</properties><testcase name='a'/></testsuite>"


def test_files_and_shards_add_up(tmp_path: pathlib.Path) -> None:
    two_files = f"<testsuites>{_suite(10.25)}{_suite(20)}</testsuites>"
    events = _events(tmp_path, [two_files, _suite(7.5)])
    assert seconds.measured(events) == {"//a:a_test": Cost(total=38, longest=30, shards=2)}


def test_a_target_without_pytest_has_its_elapsed_time(tmp_path: pathlib.Path) -> None:
    events = _events(tmp_path, [_suite(None)])
    assert seconds.measured(events) == {"//a:a_test": Cost(total=2, longest=2, shards=1)}


def test_what_is_written_is_read(tmp_path: pathlib.Path) -> None:
    costs = {"//b:b": Cost(total=3, longest=2, shards=2), "//a:a": Cost(1, 1, 1)}
    file = tmp_path / "seconds.json"
    table = {seconds.DEFAULT: costs, seconds.FULL: {}}
    seconds.write(table, file)
    assert seconds.read(file) == table
    assert [path.name for path in tmp_path.iterdir()] == ["seconds.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"default": {"//a:a": 3}, "full": {}}'])
def test_a_damaged_table_is_one_line(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "seconds.json"
    file.write_text(text)
    with pytest.raises(ResultsError, match=r"seconds\.json: .*; write it with python3 -m"):
        seconds.read(file)
