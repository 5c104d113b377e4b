# SPDX-License-Identifier: Apache-2.0
"""Test in a separate process that the plugin records outcomes and skips finished tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fbcode import outcomes, recording
from tests.fbcode.outcomes import BEGUN
from tools.presubmit.results import Outcome

_SUITE = """
import os
import unittest

import pytest

class TestThingsTPU(unittest.TestCase):
    def test_passes_tpu(self):
        pass

    def test_skips_tpu(self):
        self.skipTest("not here")

    def test_fails_tpu(self):
        assert os.path.exists("mended"), "no"

class TestOthersCPU:
    def test_of_a_device_cpu(self, record_property):
        record_property("device", "cpu")

@pytest.fixture
def broken():
    raise ValueError("broken")

def test_errs(broken):
    pass

def test_ends():
    if os.path.exists("dies"):
        os._exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "things_test.py").write_text(_SUITE)
    return tmp_path


def _run(folder: Path, *, again: bool = False) -> int:
    environment = {
        **os.environ,
        recording.FILE: str(folder / "results.jsonl"),
        recording.AGAIN: "1" if again else "",
    }
    program = f"import sys; sys.path[:] = {sys.path}; import pytest; sys.exit(pytest.main())"
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "tests.fbcode.recording", "things_test.py"]
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    ).returncode


def _found(folder: Path) -> dict[str, tuple[str, str, str, str]]:
    rows = outcomes.read(folder / "results.jsonl").values()
    return {row.test: (row.suite, row.device, row.outcome.value, row.reason) for row in rows}


def test_every_outcome_has_its_line(folder: Path) -> None:
    assert _run(folder) == pytest.ExitCode.TESTS_FAILED
    results = _found(folder)
    things = "things_test::TestThings"
    assert results.pop("test_fails_tpu")[:3] == (things, "", "failed")
    assert results == {
        "test_passes_tpu": (things, "", "passed", ""),
        "test_skips_tpu": (things, "", "skipped", "not here"),
        "test_of_a_device_cpu": ("things_test::TestOthers", "cpu", "passed", ""),
        "test_errs": ("things_test", "", "failed", "ValueError: broken"),
        "test_ends": ("things_test", "", "passed", ""),
    }


def test_files_of_the_same_name_are_told_apart_by_their_paths(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(recording.FOLDER, str(folder))
    _run(folder)
    assert _found(folder)["test_ends"][0] == "things_test.py"
    assert _found(folder)["test_passes_tpu"][0] == "things_test.py::TestThings"


def test_what_is_there_is_not_run_again_but_what_failed_if_asked(folder: Path) -> None:
    _run(folder)
    written = (folder / "results.jsonl").read_text()
    assert _run(folder) == pytest.ExitCode.NO_TESTS_COLLECTED
    assert (folder / "results.jsonl").read_text() == written
    (folder / "mended").touch()
    assert _run(folder, again=True) == pytest.ExitCode.TESTS_FAILED
    assert _found(folder)["test_fails_tpu"][2] == "passed"
    more = (folder / "results.jsonl").read_text().removeprefix(written)
    assert (
        len(more.splitlines()) == 4
    )  # Each of the two tests has a line for its start and one for its end.


def test_a_test_that_ends_the_process_is_run_again_until_somebody_says_so(folder: Path) -> None:
    (folder / "dies").touch()
    file = folder / "results.jsonl"
    assert _run(folder) == 7
    assert _found(folder)["test_ends"] == ("things_test", "", "failed", BEGUN)
    assert _run(folder) == 7
    outcomes.confirm(file, 7)
    assert _run(folder) == pytest.ExitCode.NO_TESTS_COLLECTED
    (row,) = (row for row in outcomes.read(file).values() if row.test == "test_ends")
    assert (row.outcome, row.reason) == (Outcome.FAILED, "ended its process with status 7")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("AssertionError: no\nmore", "AssertionError: no"),
        (
            "RuntimeError: Process 1 exited with error code 10 and exception:\n"
            "Traceback (most recent call last):\n"
            '  File "x.py", line 1\n'
            "torch.distributed.DistBackendError: a rank died\n"
            "\n"
            "To execute this test, run the following",
            "torch.distributed.DistBackendError: a rank died",
        ),
        (
            "RuntimeError: Process 0 terminated or timed out with exception:",
            "RuntimeError: Process 0 terminated or timed out with exception:",
        ),
        (
            "RuntimeError: Exception in worker process:\n"
            "Traceback (most recent call last):\n"
            "AssertionError: not equal",
            "AssertionError: not equal",
        ),
        ("", ""),
    ],
)
def test_a_reason_names_the_error_of_a_rank(text: str, reason: str) -> None:
    assert recording._summary(text) == reason
