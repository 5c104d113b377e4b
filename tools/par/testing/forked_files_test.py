# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

from tools.par.testing import forked_files

_PROGRAM = """
import functools, sys
from pathlib import Path
from tools.par.testing import forked_files, pytest_main
if __name__ == "__main__":
    root = Path(sys.argv.pop(1))
    sys.exit(forked_files.run(
        sorted(map(str, root.glob("*_test.py"))),
        functools.partial(pytest_main._one_file, root, 1),
        scratch=root / "scratch",
        results=root / "results.xml",
        warm_imports=["colorsys"],
    ))
"""


def _run(
    folder: Path, files: dict[str, str], *arguments: str, **variables: str
) -> tuple[int, dict[str, str]]:
    """Run the test files. Return the exit status and the outcome of each test by name."""
    for name, text in files.items():
        folder.joinpath(name).write_text(text)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "XML_"))
    }
    root = Path(forked_files.__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder), *arguments],
        env={"PYTHONPATH": str(root), **environment, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    print(done.stdout, done.stderr)
    cases = xml.etree.ElementTree.parse(folder / "results.xml").getroot().iter("testcase")
    return done.returncode, {
        f"{case.get('classname')}::{case.get('name')}": next(
            (child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed"
        )
        for case in cases
    }


def test_files_do_not_share_memory_and_share_warm_imports(tmp_path: Path) -> None:
    text = """
import os, sys
def test_first():
    assert "colorsys" in sys.modules and not hasattr(sys, "left_over")
    sys.left_over = True
"""
    status, outcomes = _run(tmp_path, {"a_test.py": text, "b_test.py": text})
    assert status == 0
    assert outcomes == {"a_test::test_first": "passed", "b_test::test_first": "passed"}


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.abort()", "SIGABRT"),
        ("os._exit(0)", "status 0"),
        ("os._exit(7)", "status 7"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
def test_a_file_that_ends_its_process_fails_alone(tmp_path: Path, end: str, reason: str) -> None:
    status, outcomes = _run(
        tmp_path,
        {
            "a_test.py": f"import os\ndef test_end():\n    {end}\n",
            "b_test.py": "def test_after():\n    pass\n",
        },
    )
    assert status == 1
    assert outcomes[f"{tmp_path}/a_test.py::process"] == "error"
    assert outcomes["b_test::test_after"] == "passed"
    assert reason in (tmp_path / "results.xml").read_text()


def test_a_failing_test_fails_the_target(tmp_path: Path) -> None:
    files = {"a_test.py": "def test_it():\n    assert 0\n", "b_test.py": "def test_it(): pass\n"}
    status, outcomes = _run(tmp_path, files)
    assert status == 1
    assert outcomes == {"a_test::test_it": "failure", "b_test::test_it": "passed"}


def test_shards_are_files(tmp_path: Path) -> None:
    text = "import os\ndef test_it():\n    assert 'TEST_TOTAL_SHARDS' not in os.environ\n"
    files = {f"{name}_test.py": text for name in "abc"}
    parts = []
    for index in "01":
        folder = tmp_path / index
        folder.mkdir()
        status, outcomes = _run(folder, files, TEST_TOTAL_SHARDS="2", TEST_SHARD_INDEX=index)
        assert status == 0
        parts.append({name.partition("_")[0] for name in outcomes})
    assert parts == [{"a", "c"}, {"b"}]


def test_a_filter_may_leave_nothing_of_a_file_but_not_of_all(tmp_path: Path) -> None:
    files = {"a_test.py": "def test_one(): pass\n", "b_test.py": "def test_two(): pass\n"}
    status, outcomes = _run(tmp_path, files, TESTBRIDGE_TEST_ONLY="test_two")
    assert (status, outcomes) == (0, {"b_test::test_two": "passed"})
    status, outcomes = _run(tmp_path, files, TESTBRIDGE_TEST_ONLY="test_three")
    assert (status, outcomes) == (5, {})


def test_cpu_time_is_in_the_results(tmp_path: Path) -> None:
    _run(tmp_path, {"a_test.py": "def test_it(): sum(range(3_000_000))\n"})
    results = xml.etree.ElementTree.parse(tmp_path / "results.xml")
    (row,) = results.findall("testsuite/properties/property[@name='cpu_seconds']")
    assert float(row.get("value", "")) > 0
