# SPDX-License-Identifier: Apache-2.0
"""Programs that run torch's tests in a monorepo parse arguments and skip slow tests correctly.

The pinned release needs no patch for this. Each case runs a separate program, because torch's test
code reads the environment and the arguments of its process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_SUITE = """
from torch.testing._internal.common_utils import TestCase

class TestThings(TestCase):
    def test_quick(self):
        self.assertEqual(1, 1)

    def test_slow(self):
        self.assertEqual(1, 1)
"""
_RUN = """
import torch.testing._internal.common_utils as machinery
from suite import TestThings
load_tests = machinery.load_tests

if __name__ == "__main__":
    machinery.run_tests()
"""
_ABSL = """
import sys
from absl import flags
from absl.testing import absltest
from suite import TestCase, TestThings

flags.DEFINE_string("of_ours", None, "A flag of the test.")

class TestFlags(TestCase):
    def test_values(self):
        print("of_ours:", flags.FLAGS.of_ours, flush=True)
        print("srcdir:", absltest.TEST_SRCDIR.value, flush=True)

if __name__ == "__main__":
    absltest.main()
"""
# absl parses the flags; torch's runner gets the remaining arguments.
_BOTH = """
import sys
from absl import app, flags
import absl.testing.absltest
import torch.testing._internal.common_utils as machinery
from suite import TestThings

if __name__ == "__main__":
    app.run(lambda argv: machinery.run_tests(argv), argv=sys.argv)
"""
_BAZELS = ["--test_srcdir=/a", "--test_tmpdir=/tmp", "--test_randomize_ordering_seed=5"]


def _program(folder: Path, text: str) -> Path:
    (folder / "suite.py").write_text(_SUITE)
    path = folder / "program.py"
    path.write_text(text)
    return path


def _run(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTORCH_TEST_FBCODE": "1"}
    for name in ("PYTORCH_DISABLE_RUNNING_SCRIPT_CHK", "SANDCASTLE", "SLOW_TESTS_FILE", "CI"):
        variables.pop(name, None)
    for name in ("XML_OUTPUT_FILE", "TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX"):
        variables.pop(name, None)  # The runner of this test sets the variable.
    variables |= environment
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_absl_owns_the_arguments(tmp_path: Path) -> None:
    path = _program(tmp_path, _ABSL)
    done = _run(path, *_BAZELS, "--of_ours=this", "TestFlags", "TestThings.test_quick")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["of_ours: this", "srcdir: /a"]
    assert "Ran 2 tests " in done.stderr


@pytest.mark.full
def test_torchs_runner_takes_the_arguments_that_are_left(tmp_path: Path) -> None:
    path = _program(tmp_path, _BOTH)
    done = _run(path, *_BAZELS, "TestThings.test_quick")
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test " in done.stderr
    refused = _run(_program(tmp_path, _RUN), *_BAZELS, PYTORCH_DISABLE_RUNNING_SCRIPT_CHK="1")
    assert refused.returncode == 2, (
        "run_tests() itself accepts Bazel's flags, so the test above proves nothing"
    )
    assert "unrecognized arguments: --test_srcdir=/a" in refused.stderr


@pytest.mark.full
def test_tests_may_be_of_another_file_than_the_one_that_runs(tmp_path: Path) -> None:
    path = _program(tmp_path, _RUN)
    refused = _run(path)
    assert refused.returncode == 1
    # torch exits before any test runs, because the tests are not in the main script.
    assert "Ran " not in refused.stderr
    done = _run(path, PYTORCH_DISABLE_RUNNING_SCRIPT_CHK="1")
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests " in done.stderr


@pytest.mark.full
@pytest.mark.parametrize(("with_slow", "skipped"), [("0", True), ("1", False)])
def test_slow_tests_are_those_of_a_file(tmp_path: Path, with_slow: str, skipped: bool) -> None:
    listed = tmp_path / "slow.json"
    listed.write_text(json.dumps({"test_slow (suite.TestThings)": 120.0}))
    done = _run(
        _program(tmp_path, _RUN),
        "-v",
        PYTORCH_DISABLE_RUNNING_SCRIPT_CHK="1",
        SLOW_TESTS_FILE=str(listed),
        PYTORCH_TEST_WITH_SLOW=with_slow,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests " in done.stderr
    reason = "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test"
    assert (reason in done.stderr) is skipped


@pytest.mark.full
def test_where_upstreams_monorepo_keeps_that_file_the_seam_is_asked(tmp_path: Path) -> None:
    text = """
import torch._utils_internal as seam

asked, upstream = [], seam.get_file_path
seam.get_file_path = lambda *path: asked.append(path) or upstream(*path)
import torch.testing._internal.common_utils as machinery
print([path for path in asked if path[0] == "test"], machinery.slow_tests_dict)
"""
    for sandcastle, answer in (("1", "[('test', 'slow_tests.json')] {}"), ("0", "[] {}")):
        done = _run(_program(tmp_path, text), SANDCASTLE=sandcastle)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == answer
