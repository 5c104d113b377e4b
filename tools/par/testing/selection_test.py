# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_CASES = """
    import pytest

    @pytest.mark.parametrize("x", range(10))
    def test_table(x): pass

    def test_one(): pass

    @pytest.mark.parametrize("x", [0, pytest.param(1, marks=pytest.mark.full)])
    def test_mark(x): pass

    @pytest.mark.full
    def test_full(): pass
"""
_PROGRAM = """
    import sys
    import pytest
    from tools.par.testing.selection import Selection
    file, sample, in_full_run, *options = sys.argv[1:]
    options += ["-q", "-p", "no:cacheprovider", "--strict-markers", "--collect-only"]
    selection = Selection(int(sample), in_full_run=in_full_run == "True")
    sys.exit(pytest.main([file, *options], plugins=[selection]))
"""


def _run(
    folder: Path, sample: int, environment: dict[str, str], *, in_full_run: bool = True
) -> subprocess.CompletedProcess[str]:
    file = folder / "some_test.py"
    file.write_text(textwrap.dedent(_CASES))
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEST", "TORCH_GOOGLE_TESTS"))
    }
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(file), str(sample), str(in_full_run)],
        env={**variables, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def _collected(folder: Path, sample: int, **environment: str) -> list[str]:
    done = _run(folder, sample, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def test_marked_cases_are_deselected(tmp_path: Path) -> None:
    names = _collected(tmp_path, 1)
    assert names == [*(f"test_table[{x}]" for x in range(10)), "test_one", "test_mark[0]"]


@pytest.mark.parametrize(("sample", "tables"), [(2, 5), (3, 4), (20, 1)])
def test_a_sample_has_a_part_of_each_test(tmp_path: Path, sample: int, tables: int) -> None:
    names = _collected(tmp_path, sample)
    assert names == _collected(tmp_path, sample)
    assert sum(name.startswith("test_table") for name in names) == tables
    assert names[-2:] == ["test_one", "test_mark[0]"]


@pytest.mark.parametrize(
    "environment", [{"TORCH_GOOGLE_TESTS": "full"}, {"TESTBRIDGE_TEST_ONLY": "test"}]
)
def test_a_full_or_filtered_run_has_everything(tmp_path: Path, environment: dict[str, str]) -> None:
    assert len(_collected(tmp_path, 5, **environment)) == 14


def test_cases_that_no_run_would_have_are_refused(tmp_path: Path) -> None:
    done = _run(tmp_path, 5, {}, in_full_run=False)
    assert done.returncode != 0
    assert 'add tags = ["budget"]' in done.stderr
