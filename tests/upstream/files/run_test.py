# SPDX-License-Identifier: Apache-2.0
"""run.py continues after a test that terminates its process, and does not run any test twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fbcode import outcomes
from tests.upstream.files import catalogue, limits, run
from tools.presubmit.results import Outcome

_SUITE = """
import os
import unittest

class TestAutogradCPU(unittest.TestCase):
    def test_a_cpu(self):
        pass

    def test_b_cpu(self):
        os._exit(7)

    def test_c_cpu(self):
        self.assertTrue(os.path.exists(os.environ["MENDED"]))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a test_autograd.py that child processes run instead of torch's file."""
    (tmp_path / "test_autograd.py").write_text(_SUITE)
    (tmp_path / "program.py").write_text(
        f"import sys\nsys.path[:] = [{str(tmp_path)!r}, *{sys.path!r}]\n"
        "import importlib.util\nfrom pathlib import Path\nfrom tests.upstream.files import catalogue\n"
        f"catalogue.root = lambda: Path({str(tmp_path)!r})\n"
        "from tests.upstream.files import one_file\nsys.exit(one_file.main(sys.argv[1:]))\n"
    )
    monkeypatch.setattr(catalogue, "root", lambda: tmp_path)
    monkeypatch.setattr(run, "_PROGRAM", (str(tmp_path / "program.py"),))
    monkeypatch.setenv("MENDED", str(tmp_path / "mended"))
    return tmp_path


def test_goes_on_and_does_nothing_twice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, table = here / "rows.jsonl", here / "TABLE.md"
    command = ["test_autograd.py", f"--results={file}", f"--page={table}"]
    assert run.main(command) == 1
    results = {ran.test: (ran.outcome, ran.reason) for ran in outcomes.read(file).values()}
    assert results["test_a_cpu"] == (Outcome.PASSED, "")
    assert results["test_b_cpu"] == (Outcome.FAILED, "ended its process with status 7")
    assert results["test_c_cpu"][0] is Outcome.FAILED
    assert "failed: test_autograd::TestAutograd::test_b_cpu: ended" in capsys.readouterr().out
    assert "| test_autograd | none | 3 | 1 | 33.33 % | 2 | 0 | 0 |" in table.read_text()
    written = file.read_text()
    assert run.main(command) == 1
    assert file.read_text() == written
    (here / "mended").touch()
    assert run.main([*command, "--again", "--", "-k", "test_c"]) == 1
    ((_, again),) = (k for k in outcomes.read(file).items() if k[0][1] == "test_c_cpu")
    assert again.outcome is Outcome.PASSED


def test_what_a_stopped_run_was_at_is_run_again(here: Path) -> None:
    (here / "test_indexing.py").write_text(
        "import unittest\nclass TestIndexing(unittest.TestCase):\n    def test_a(self): pass\n"
    )
    file = here / "rows.jsonl"
    begun = outcomes.Ran(
        "test_indexing::TestIndexing", "test_a", "", Outcome.FAILED, outcomes.BEGUN
    )
    outcomes.append(file, [begun])
    run.main(["test_autograd", f"--results={file}"])
    assert outcomes.read(file)[begun.key] == begun
    run.main(["test_indexing", f"--results={file}"])
    assert outcomes.read(file)[begun.key].outcome is Outcome.PASSED


def test_shares_are_apart_and_make_the_whole(here: Path) -> None:
    tests = []
    for index in range(3):
        file = here / f"{index}.jsonl"
        run.main(["test_autograd", f"--results={file}", f"--share={index}/3"])
        tests += [ran.test for ran in outcomes.read(file).values()]
    assert sorted(tests) == ["test_a_cpu", "test_b_cpu", "test_c_cpu"]


def test_what_is_asked_for_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.chosen(["test_nn", "whole"])[0] == "test_nn"
    assert sorted(catalogue.chosen(["test_nn", "whole"])) == list(catalogue.WHOLE)
    assert run.main(["test_others"]) == 1
    assert "'test_others' is not a torch test file of this program" in capsys.readouterr().err
    with pytest.raises(ValueError, match="expected INDEX/SHARDS as in 0/16, found '3/3'"):
        limits.share("3/3")


def test_without_the_files_it_says_what_builds_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["test_nn"]) == 1
    assert "Build with --config=static" in capsys.readouterr().err
