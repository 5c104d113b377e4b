# SPDX-License-Identifier: Apache-2.0
"""Test that account.py reads the result files that pytest writes in a par_test."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tools.presubmit import account, results
from tools.presubmit.results import Case, Outcome

_SUITE = """
import unittest
import pytest

class TestThingsCPU(unittest.TestCase):
    device_type = "cpu"
    def test_runs(self): pass
    def test_fails(self): raise AssertionError("no")

class TestThingsPRIVATEUSE1(unittest.TestCase):
    device_type = "privateuse1"
    @classmethod
    def setUpClass(cls): cls.device_type = "tpu"
    def test_runs(self): pass
    def test_skips(self): raise unittest.SkipTest("fewer than 99 devices detected")
    def test_skips_as_well(self): self.skipTest("fewer than 2 devices detected")

@unittest.skip("left out whole")
class TestNothing(unittest.TestCase):
    def test_it(self): pass

def test_of_no_device(): pass

@pytest.mark.xfail(reason="known")
def test_expected(): raise ValueError

@pytest.mark.skipif(True, reason="a reason <with> 'marks' & more")
def test_skipped(): pass

class Broken:
    pass

@pytest.fixture
def broken(): raise OSError("no fixture")

def test_error(broken): pass
"""
_PROGRAM = """
import sys
from tools.par.testing import pytest_main
sys.exit(pytest_main.run(__file__, __name__, ["suite_test.py"]))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Run _SUITE, and return its result file, in a folder with the layout of bazel-testlogs."""
    root = tmp_path_factory.mktemp("suite")
    (root / "suite_test.py").write_text(_SUITE)
    (root / "program.py").write_text(_PROGRAM)
    folder = root / "testlogs/tests/things/of_ours/suite_test/shard_1_of_2"
    folder.mkdir(parents=True)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path[:0] = {[str(root), *sys.path]}; import program",
        ],
        cwd=root,
        env={
            **os.environ,
            "PYTORCH_TEST_FBCODE": "1",
            "XML_OUTPUT_FILE": str(folder / "test.xml"),
            "TEST_TOTAL_SHARDS": "1",
            "TEST_SHARD_INDEX": "0",
            "TEST_TMPDIR": str(root / "tmp"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return folder / "test.xml"


def test_every_case_has_its_outcome_reason_and_device(file: pathlib.Path) -> None:
    report = results.read(file)
    assert report.properties["PYTORCH_TEST_FBCODE"] == "1"
    expected = {
        "TestThingsCPU::test_runs": (Outcome.PASSED, "", "cpu"),
        "TestThingsCPU::test_fails": (Outcome.FAILED, "", "cpu"),
        "TestThingsPRIVATEUSE1::test_runs": (Outcome.PASSED, "", "tpu"),
        "TestThingsPRIVATEUSE1::test_skips": (
            Outcome.SKIPPED,
            "fewer than 99 devices detected",
            "tpu",
        ),
        "TestThingsPRIVATEUSE1::test_skips_as_well": (
            Outcome.SKIPPED,
            "fewer than 2 devices detected",
            "tpu",
        ),
        "TestNothing::test_it": (Outcome.SKIPPED, "left out whole", ""),
        "suite_test::test_of_no_device": (Outcome.PASSED, "", ""),
        "suite_test::test_expected": (Outcome.SKIPPED, "known", ""),
        "suite_test::test_skipped": (Outcome.SKIPPED, "a reason <with> 'marks' & more", ""),
        "suite_test::test_error": (Outcome.FAILED, "", ""),
    }
    assert {
        case.name.rpartition(".")[2]: (case.outcome, case.reason, case.device)
        for case in report.cases
    } == expected


def test_tables_by_room_and_device_and_the_reasons(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert account.main([str(file.parents[5])]) == 1  # status 1, because two cases failed
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    numbers = {line[0]: line[1].split() for line in lines}
    assert numbers["tests/things"] == ["5", "3", "2", "5"]
    assert numbers["cpu"] == ["2", "1", "1", "0"]
    assert numbers["tpu"] == ["1", "1", "0", "2"]
    assert numbers["no"] == ["device", "2", "1", "1", "3"]
    assert numbers["all"] == ["5", "3", "2", "5"]
    assert lines[-4:] == [
        ["2", "fewer than N devices detected"],
        ["1", "a reason <with> 'marks' & more"],
        ["1", "known"],
        ["1", "left out whole"],
    ]


def test_a_file_is_a_room(file: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert account.main([str(file)]) == 1
    assert capsys.readouterr().out.splitlines()[1].split() == ["test", "5", "3", "2", "5"]


def test_all_passed_is_zero(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.xml").write_text("<testsuite><testcase name='a'/></testsuite>")
    assert account.main([str(tmp_path / "few.xml")]) == 0
    assert "because" not in capsys.readouterr().out


def test_nothing_there(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert account.main([str(tmp_path)]) == 1
    assert "no test case in these files" in capsys.readouterr().out
    assert account.main([str(tmp_path / "absent.xml")]) == 1
    assert "absent.xml: " in capsys.readouterr().err


def test_a_skip_without_a_reason_says_so() -> None:
    of = account.Account()
    of.add("a", [Case("x", Outcome.SKIPPED), Case("y", Outcome.SKIPPED, "w" * 500)])
    assert "no reason was given" in of.lines()[-2] + of.lines()[-1]
    assert max(map(len, of.lines())) <= 130


@pytest.mark.parametrize(
    ("label", "room"),
    [
        ("//tests/par:packed_test", "tests/par"),
        ("//tools/importer/verify:a_test", "tools/importer"),
        ("//examples:train_test", "examples"),
        ("//:a_test", "//"),
        ("@other//a/b/c:d", "a/b"),
    ],
)
def test_room_of_a_label(label: str, room: str) -> None:
    assert account.room(label) == room
