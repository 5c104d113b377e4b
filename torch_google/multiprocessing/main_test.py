# SPDX-License-Identifier: Apache-2.0
"""Test handle_test_main, and every way in which a program can exit from handle_main."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_ABSL = """
import multiprocessing
from absl import flags
from absl.testing import absltest
from torch_google import multiprocessing as processes

FLAGS = flags.FLAGS
TEXT = flags.DEFINE_string("text", "not given", "")

def check(index):
    assert TEXT.value == "hello" and multiprocessing.get_start_method() == "spawn"

class Test(absltest.TestCase):
    def test_a_child_has_the_flags(self):
        processes.spawn(check, nprocs=1)
    def test_that_fails(self):
        self.assertEqual(TEXT.value, "something else")

if __name__ == "__main__":
    processes.handle_test_main(absltest.main)
"""

_PYTEST = """
import sys
from pathlib import Path
import pytest
from absl import flags
from torch_google import multiprocessing as processes

TEXT = flags.DEFINE_string("text", "not given", "")

def check(index):
    assert TEXT.value == "hello"

class Plugin:
    def pytest_collection_modifyitems(self, items):
        processes.spawn(check, nprocs=1)

if __name__ == "__main__":
    processes.handle_test_main(pytest.main, ["-q", str(Path(__file__).with_name("cases.py"))], [Plugin()])
"""

_ENDS = """
import sys
from torch_google import multiprocessing as processes

def main(argv):
    print(argv[1:])
    if argv[1] == "raise":
        raise ValueError("the end")
    return int(argv[1])

if __name__ == "__main__":
    processes.handle_main(main, known_only=True)
"""


def _run(directory: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = directory / "program_of_test.py"
    program.write_text(text)
    return subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.full
def test_absltest(tmp_path: Path) -> None:
    done = _run(tmp_path, _ABSL, "--text=hello")
    assert done.returncode == 1
    assert "Ran 2 tests" in done.stderr
    assert "FAILED (failures=1)" in done.stderr
    assert _run(tmp_path, _ABSL, "--text=hello", "Test.test_a_child_has_the_flags").returncode == 0


def test_pytest(tmp_path: Path) -> None:
    cases = tmp_path / "cases.py"
    cases.write_text("def test_right():\n    assert True\n")
    done = _run(tmp_path, _PYTEST, "--text=hello")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
    cases.write_text("def test_wrong():\n    assert False\n")
    assert _run(tmp_path, _PYTEST, "--text=hello").returncode == 1


def test_the_end_of_main_is_the_programs(tmp_path: Path) -> None:
    for status in (0, 4):
        done = _run(tmp_path, _ENDS, str(status), "--unknown=1")
        assert (done.returncode, done.stdout) == (status, f"['{status}', '--unknown=1']\n")
    done = _run(tmp_path, _ENDS, "raise")
    assert done.returncode == 1
    assert re.search(r"^E.* program_of_test\.py ended by an exception$", done.stderr, re.MULTILINE)
    assert done.stderr.count("ValueError: the end") == 1
