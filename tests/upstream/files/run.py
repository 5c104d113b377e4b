# SPDX-License-Identifier: Apache-2.0
"""Run torch's own test files, each in a separate process, and print a summary.

    run.par whole --results whole.jsonl                   # resumes
    run.par full --share 5/96 -- -k linalg
    run.par full --results full.jsonl --page TABLE.md
    run_on_tpu.par test_shape_ops --device tpu            # device-generic tests, on tpu

Arguments are torch's test files, such as `test_nn`, or the sets `whole`, `further` and `full`.
Options after `--` are passed to pytest. The exit status is 0 if tests ran and exceptions.json lists
all failures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fbcode import outcomes, recording
from tests.upstream.files import catalogue, device, limits, page

# The Python arguments that run a test file in a child process.
_PROGRAM = ("-m", "tests.upstream.files.one_file")


def main(argv: Sequence[str]) -> int:
    """Return 0 if the results file contains tests and no failures, else 1."""
    own, for_pytest = [*argv], []
    if "--" in own:
        own, for_pytest = own[: own.index("--")], own[own.index("--") + 1 :]
    options = _parse(own)
    try:
        files = catalogue.chosen(options.files)
        limits.share(options.share)
        device.check(options.device)
        catalogue.root()
    except (FileNotFoundError, ValueError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    os.environ[device.DEVICE] = options.device
    with tempfile.TemporaryDirectory() as scratch:
        results = (options.results or Path(scratch, "results.jsonl")).absolute()
        for file in files:
            status = run_file(file, options.share, results, options.again, for_pytest)
            if status:
                return status
        tests = list(outcomes.read(results).values())
    fine = outcomes.announce(tests, lambda ran: ran.suite.partition("::")[0])
    if options.page:
        page.write(tests, options.page)
    return 0 if fine else 1


def run_file(file: str, share: str, results: Path, again: bool, for_pytest: Sequence[str]) -> int:
    """Run a file's tests that have no outcome yet. Return 0, or another status if it cannot run.

    A test that terminates its process counts as failed, and a new process runs the remaining ones.
    """
    command = [sys.executable, *_PROGRAM, file, *for_pytest]
    environment = {
        **os.environ,
        limits.SHARE: share,
        recording.FILE: str(results),
        recording.AGAIN: "1" if again else "",
    }
    while True:
        print(f"=== {file}, share {share}", flush=True)
        size = _size(results)
        status = subprocess.run(command, env=environment, check=False).returncode
        fine = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        wrote = _size(results) > size
        if outcomes.confirm(results, status, size):
            # Do not run a test a third time if it failed again before the process exited.
            environment[recording.AGAIN] = ""
        elif status in fine or (status == pytest.ExitCode.TESTS_FAILED and wrote):
            return 0
        else:
            print(f"run: {file} ended with status {status}; its output is above", file=sys.stderr)
            return abs(status)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help=f"torch's test files; {', '.join(catalogue.SETS)}")
    parser.add_argument("--share", default="0/1", help="INDEX/SHARDS of each file's tests")
    parser.add_argument("--device", default="cpu", help=f"{' or '.join(device.DEVICES)}")
    parser.add_argument("--results", type=Path, help="results file; tests in it do not run again")
    parser.add_argument("--again", action="store_true", help="run failed tests again")
    parser.add_argument("--page", type=Path, help="write the tables to this Markdown file")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
