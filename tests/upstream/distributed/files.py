# SPDX-License-Identifier: Apache-2.0
"""Run torch's test files on the device that UPSTREAM_DEVICE names.

    files --results FOLDER FILE...

This process imports torch and JAX once, then forks a process for each test file. The outcomes are
appended to the file at `comparison.results_file`, and tests that already have an outcome in that
file do not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fbcode import outcomes, recording
from tests.upstream.distributed import catalogue, comparison

_RANKS = "tests.upstream.distributed.ranks"
_OPTIONS = [
    "--import-mode=prepend",
    "--noconftest",  # upstream's conftest.py needs a different pytest version
    "--tb=native",
    "--assert=plain",
    "--override-ini=markers=serial: upstream's runner runs it alone",
    "--strict-markers",
    "-q",
    "-pno:cacheprovider",
    "-pno:logging",
    "-pno:warnings",
    f"-p{_RANKS}",
    f"-p{recording.__name__}",
]
_COMPLETED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
# The timeout for one test, in seconds. It is long, because some tests take up to ten minutes.
_TIMEOUT = 1200.0


def main(argv: Sequence[str]) -> int:
    """Run all files, even if tests fail or a file cannot be imported, and return 0."""
    parser = argparse.ArgumentParser(prog="files", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--again", action="store_true", help="run failed tests again")
    parser.add_argument("--pytest", action="append", default=[], help="an option for pytest")
    options = parser.parse_args(argv)
    # This import loads torch and JAX and adapts torch's test framework, for this process and its
    # children.
    device = importlib.import_module(_RANKS).device()
    # Exclude the imported objects from garbage collection. Otherwise, a collection in a child would
    # write to them, and the kernel would copy their pages.
    gc.collect()
    gc.freeze()
    for file in catalogue.chosen(options.files):
        run_file(file, device, options.results.absolute(), options.pytest, again=options.again)
    return 0


def run_file(
    file: str, device: str, results: Path, for_pytest: Sequence[str] = (), *, again: bool = False
) -> None:
    """Run a file's tests that have no outcome yet, in forked processes.

    If a test takes too long, its process is killed. If a test terminates its process, the test
    counts as failed, and a new process runs the remaining tests.
    """
    target = comparison.results_file(results, file, device)
    environment = {recording.FILE: str(target)}
    if device == "cpu":
        environment[catalogue.ONLY_FAILED] = str(comparison.results_file(results, file, "tpu"))
    while True:
        print(f"=== {file} on {device}", flush=True)
        size = target.stat().st_size if target.exists() else 0
        environment[recording.AGAIN] = "1" if again else ""
        status = _run_forked(file, environment, for_pytest)
        if outcomes.confirm(target, status, size):
            again = False  # do not repeat failed tests a third time
            continue
        if status not in _COMPLETED:
            print(f"run: {file} on {device}: status {status}; see above", file=sys.stderr)
        elif device == "tpu" and not for_pytest:
            comparison.finished(results, file).touch()
        return


def _run_forked(file: str, environment: dict[str, str], for_pytest: Sequence[str]) -> int:
    """Run a file in a forked process.

    Return its exit status, or minus the signal number if a signal killed it.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as scratch:
        process = os.fork()
        if not process:
            status = 1
            try:
                os.setpgid(0, 0)
                os.environ.update(environment)
                os.chdir(scratch)  # some tests leave files in the current directory
                status = _run(file, for_pytest)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        try:
            return _wait(process, Path(environment[recording.FILE]))
        finally:
            _end_group(process)


def _run(file: str, options: Sequence[str]) -> int:
    """Run a file in this process. Return pytest's exit status."""
    folder = catalogue.root()
    path = folder / "distributed" / f"{file}.py"
    # Test files import files in the same folder, and ranks import the test files.
    sys.path[:0] = [str(path.parent), str(folder)]
    return int(pytest.main([*_OPTIONS, f"--rootdir={folder}", *options, str(path)]))


def _wait(process: int, target: Path) -> int:
    """Wait for a process, and return its exit status. Kill it if it stops recording outcomes.

    The time limit between two records is _TIMEOUT seconds.
    """
    size, since = -1, time.monotonic()
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        now = target.stat().st_size if target.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > _TIMEOUT:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _end_group(process: int) -> None:
    """Kill the ranks that a process left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
