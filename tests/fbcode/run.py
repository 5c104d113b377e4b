# SPDX-License-Identifier: Apache-2.0
"""Run our test suites on all of torch's test tables or on one shard, and print a summary.

    python -m tests.fbcode.run devices --results devices.jsonl           # resumes
    python -m tests.fbcode.run devices --share 5/96 -- -k operators -x
    python -m tests.fbcode.run all --results all.jsonl --page tests/fbcode/TABLE.md

Options after `--` are passed to pytest. `tools/presubmit/account.py` computes the final tables.
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

from tests.fbcode import outcomes, page, recording
from tests.fbcode.shard import SUITES

# The number of shards. Each runs in its own process, which needs a few GB for compiled programs,
# because they are never freed.
_SHARDS = {"devices": 32, "distributed": 1}


def main(argv: Sequence[str]) -> int:
    """Run the suites. Return 0 if the results file then contains tests and no failures."""
    own, for_pytest = [*argv], []
    if "--" in own:
        own, for_pytest = own[: own.index("--")], own[own.index("--") + 1 :]
    options = _parse(own)
    chosen = sorted(SUITES) if options.suites == "all" else [options.suites]
    with tempfile.TemporaryDirectory() as scratch:
        results = options.results or Path(scratch, "results.jsonl")
        for suites in chosen:
            every = [f"{index}/{_SHARDS[suites]}" for index in range(_SHARDS[suites])]
            for shard in [options.share] if options.share else every:
                status = _run(suites, shard, results, options.again, for_pytest)
                if status:
                    return status
        tests = list(outcomes.read(results).values())
    fine = outcomes.announce(tests, lambda ran: ran.suite)
    if options.page:
        page.write(tests, options.page)
    return 0 if fine else 1


def _run(suites: str, shard: str, results: Path, again: bool, for_pytest: Sequence[str]) -> int:
    """Run the remaining tests of a shard. Return 0, or pytest's status if it could not run them.

    A test that terminates its process counts as failed, and a new process runs the rest.
    """
    command = [sys.executable, "-m", "tests.fbcode.shard", suites, shard, str(results), *for_pytest]
    environment = {**os.environ, recording.AGAIN: "1" if again else ""}
    while True:
        print(f"=== {suites}, shard {shard}", flush=True)
        before = _size(results)
        status = subprocess.run(command, env=environment, check=False).returncode
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return 0
        # Some tests failed, but the results file records that, so the shard itself ran correctly.
        if status == pytest.ExitCode.TESTS_FAILED and _size(results) > before:
            return 0
        if status > 0 or _size(results) == before:
            print(
                f"run: shard {shard} of {suites} ended with {status}; its output is above",
                file=sys.stderr,
            )
            return abs(status)
        outcomes.confirm(results, status, before)
        # In the next process, do not rerun failed tests, because this process has already rerun
        # them.
        environment[recording.AGAIN] = ""


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("suites", choices=["all", *sorted(SUITES)])
    parser.add_argument(
        "--share", help="INDEX/SHARDS of the tables; default: all shards, one by one"
    )
    parser.add_argument("--results", type=Path, help="results file; tests in it do not run again")
    parser.add_argument("--again", action="store_true", help="run failed tests again")
    parser.add_argument("--page", type=Path, help="write the tables to this Markdown file")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
