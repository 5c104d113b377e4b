# SPDX-License-Identifier: Apache-2.0
"""Run files on the device UPSTREAM_DEVICE: --results FOLDER FILE...

Each file runs in a process that is forked from this one, which has imported torch and JAX. So the
imports happen once for all files and ranks. Outcomes are appended to the files of
`comparison.results_file`, and tests that are already in them do not run again.
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
    "--noconftest",  # upstream's conftest.py needs another version of pytest
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
# Seconds for one test. In several files, one test takes up to ten minutes.
_TIMEOUT = 1200.0


def main(argv: Sequence[str]) -> int:
    """Return 0. Failed tests, and files that cannot be imported, do not stop the run."""
    parser = argparse.ArgumentParser(prog="files", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--again", action="store_true", help="run failed tests again")
    parser.add_argument("--pytest", action="append", default=[], help="an option for pytest")
    options = parser.parse_args(argv)
    # Imports torch and JAX, and adapts torch's test framework in this process and its children.
    device = importlib.import_module(_RANKS).device()
    # Otherwise, each process would scan the objects of the imports for garbage, and copy them.
    gc.collect()
    gc.freeze()
    for file in catalogue.chosen(options.files):
        run_file(file, device, options.results.absolute(), options.pytest, again=options.again)
    return 0


def run_file(
    file: str, device: str, results: Path, for_pytest: Sequence[str] = (), *, again: bool = False
) -> None:
    """Run a file's remaining tests in forked processes.

    A process is killed if a test takes too long. A test during which the process ended counts as
    failed, and a new process runs the next ones.
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
    """Return pytest's exit status, or the negative number of the signal that ended it."""
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
    # Test files import modules next to them, and ranks import the test files.
    sys.path[:0] = [str(path.parent), str(folder)]
    return int(pytest.main([*_OPTIONS, f"--rootdir={folder}", *options, str(path)]))


def _wait(process: int, target: Path) -> int:
    """Return the exit status of a process. Kill it if it records no outcome for too long."""
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
    """Kill the ranks that a process has left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
