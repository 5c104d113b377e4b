# SPDX-License-Identifier: Apache-2.0
"""Children get the parent's flags and log, and report failures to it, with every start method."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_METHODS = ["spawn", "forkserver", "fork"]

every_method = pytest.mark.parametrize("method", _METHODS)


def _run(scene: str, method: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch_google.multiprocessing.testing.process_scenarios"),
            *(scene, f"--multiprocessing_start_method={method}", *arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@every_method
def test_children_have_the_flags_and_the_log(method: str, tmp_path: Path) -> None:
    done = _run("flags_and_log", method, "--text=a\nb", f"--torch_log_directory={tmp_path}")
    assert done.returncode == 0, done.stderr
    for text in (done.stderr, "".join(path.read_text() for path in tmp_path.iterdir())):
        for index in range(2):
            line = rf"I\d+ .*process_scenarios\.py:\d+\] \[talker-{index} \d+\] child {index} says a\nb by {method}\n"
            assert re.search(line, text), text
        assert f"the parent says a\nb by {method}\n" in text
    assert len(list(tmp_path.iterdir())) == 3  # one log file per process


@every_method
def test_json_holds_for_children(method: str) -> None:
    done = _run("flags_and_log", method, "--torch_log_json")
    assert len(re.findall(r'^\{.*"process": "talker-\d \d+"', done.stderr, re.MULTILINE)) == 2


@every_method
def test_the_verbosity_holds_for_children(method: str) -> None:
    done = _run("flags_and_log", method, "--verbosity=-1")
    assert (done.returncode, done.stderr) == (0, "")


@every_method
def test_exit_status(method: str) -> None:
    assert _run("status", method, "--status=7").returncode == 7
    assert _run("status", method, "--status=0").returncode == 0


@every_method
def test_a_text_for_a_status_is_logged_once(method: str) -> None:
    done = _run("status_text", method)
    assert done.returncode == 1
    assert done.stderr.count("failed:\nchild 0 has nothing to do\n") == 1
    assert "reported no reason" not in done.stderr


@every_method
def test_a_traceback_is_logged_once(method: str) -> None:
    done = _run("uncaught", method)
    assert done.returncode == 1
    assert len(re.findall(r"^E.* child-0 \(pid \d+\) failed:$", done.stderr, re.MULTILINE)) == 1
    assert done.stderr.count("in fail\n") == 1
    assert re.search(
        r"ProcessFailedError: process child-0 \(pid \d+\) ended by exit status 1: "
        r"ValueError: child 0 says no\n",
        done.stderr,
    )


@every_method
def test_a_process_of_multiprocessings_own_reports_too(method: str) -> None:
    done = _run("plain", method)
    assert done.returncode == 1
    assert re.search(r"^E.* plain-child \(pid \d+\) failed:$", done.stderr, re.MULTILINE)
    assert done.stderr.count("ValueError: child 0 says no") == 1


@every_method
def test_nothing_said_is_lost_when_the_program_ends_at_once(method: str) -> None:
    done = _run("ends_at_once", method)
    assert done.returncode == 1
    for depth in range(3):
        assert done.stderr.count(f"ValueError: depth {depth} says no") == 1, done.stderr
    for depth in range(2):
        # The stream's format shows that Abseil's fallback handler did not write the line.
        assert re.search(
            rf"^E\d{{4}} .* depth-{depth} \(pid \d+\) failed:$", done.stderr, re.MULTILINE
        )


@every_method
def test_a_crash_in_c_is_logged_with_its_traceback(method: str) -> None:
    done = _run("crash", method)
    assert done.returncode == 1
    assert re.search(
        r"^E.* crasher-0 \(pid \d+\) failed:\nFatal Python error: Segmentation fault",
        done.stderr,
        re.MULTILINE,
    )
    assert "in crash_in_c\n" in done.stderr
    assert "ended by SIGSEGV: Fatal Python error: Segmentation fault\n" in done.stderr


@every_method
def test_children_of_children(method: str) -> None:
    done = _run("nested", method, "--text=deep")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[outer-0 \d+\] child 0 says deep", done.stderr)
    assert re.search(r"\[inner-0 \d+\] child 0 says deep", done.stderr)


@every_method
def test_loader_workers_by_the_default_method(method: str) -> None:
    done = _run("loader", method, "--text=hello")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"\[Process-\d \d+\] worker says hello", done.stderr)) == 2
    assert "] total 285\n" in done.stderr


def test_a_loader_workers_exception_is_in_the_log() -> None:
    done = _run("loader_raises", "fork")
    assert done.returncode == 1
    assert re.search(r"^E.*ended by an exception$", done.stderr, re.MULTILINE)
    assert "ValueError: no item 0" in done.stderr


@pytest.mark.full
@every_method
def test_a_loader_workers_crash_is_in_the_log(method: str) -> None:
    done = _run("loader_crashes", method)
    assert done.returncode == 1
    assert "DataLoader worker (pid" in done.stderr
    assert re.search(
        r"^E.* Process-\d \(pid \d+\) failed:\nFatal Python error: Segmentation fault",
        done.stderr,
        re.MULTILINE,
    )
    assert "in crash_in_c\n" in done.stderr
    assert "\0" not in done.stderr  # torch's own handler would end its line with a NUL


def test_the_method_is_checked() -> None:
    done = _run("flags_and_log", "telepathy")
    assert done.returncode == 1
    assert "flag --multiprocessing_start_method=telepathy" in done.stderr


def test_help_is_readable() -> None:
    done = _run("flags_and_log", "spawn", "--helpfull")
    assert done.returncode == 1  # absl exits with status 1 after --help
    assert "--multiprocessing_start_method: <spawn|forkserver|fork>:" in done.stdout
    flags = done.stdout.partition("\nflags:\n")[2]
    # Skip the paths of source files, which absl prints above their flags, because they may be long.
    lines = [line for line in flags.splitlines() if not line.startswith("/")]
    assert max(map(len, lines)) <= 80


def test_torchs_isolated_calls_work_as_they_are() -> None:
    done = _run("isolated", "spawn")
    assert done.returncode == 0, done.stderr
    assert "] isolated in a child: True\n" in done.stderr
