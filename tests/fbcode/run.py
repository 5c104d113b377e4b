# SPDX-License-Identifier: Apache-2.0
"""Run the suites over the whole of torch's tables, or a share of them, and say what became of it.

    python -m tests.fbcode.run devices --results devices.jsonl           # goes on where it was
    python -m tests.fbcode.run devices --share 5/96 -- -k operators -x
    python -m tests.fbcode.run all --results all.jsonl --page tests/fbcode/TABLE.md

Behind `--` are pytest's own options. The tables at the end are those of
`tools/presubmit/account.py`.
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
from tests.fbcode.share import SUITES

# Programs are never given back: shares of this size keep a process at a few GB.
_SHARES = {"devices": 32, "distributed": 1}


def main(argv: Sequence[str]) -> int:
    """Return 0 if the results file has tests and no failure."""
    ours, behind = [*argv], []
    if "--" in ours:
        ours, behind = ours[: ours.index("--")], ours[ours.index("--") + 1 :]
    options = _parse(ours)
    chosen = sorted(SUITES) if options.suites == "all" else [options.suites]
    with tempfile.TemporaryDirectory() as scratch:
        results = options.results or Path(scratch, "results.jsonl")
        for suites in chosen:
            every = [f"{index}/{_SHARES[suites]}" for index in range(_SHARES[suites])]
            for share in [options.share] if options.share else every:
                status = _run(suites, share, results, options.again, behind)
                if status:
                    return status
        found = list(outcomes.read(results).values())
    fine = outcomes.announce(found, lambda ran: ran.suite)
    if options.page:
        page.write(found, options.page)
    return 0 if fine else 1


def _run(suites: str, share: str, results: Path, again: bool, behind: Sequence[str]) -> int:
    """Run what is left of a share. Returns 0, or pytest's status when it could not be run.

    A test that ends the process has failed; another process goes on behind it.
    """
    command = [sys.executable, "-m", "tests.fbcode.share", suites, share, str(results), *behind]
    environment = {**os.environ, recording.AGAIN: "1" if again else ""}
    while True:
        print(f"=== {suites}, share {share}", flush=True)
        before = _size(results)
        status = subprocess.run(command, env=environment, check=False).returncode
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return 0
        # Failures are in the file, with pytest's options that end a run at the first.
        if status == pytest.ExitCode.TESTS_FAILED and _size(results) > before:
            return 0
        if status > 0 or _size(results) == before:
            print(f"run: share {share} of {suites} ended with {status}, as above", file=sys.stderr)
            return abs(status)
        outcomes.confirm(results, status, before)
        # What failed before the end of this process is not run a third time.
        environment[recording.AGAIN] = ""


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("suites", choices=["all", *sorted(SUITES)])
    parser.add_argument("--share", help="of the tables, INDEX/SHARES; default: all, one by one")
    parser.add_argument("--results", type=Path, help="a file: what is in it is not run again")
    parser.add_argument("--again", action="store_true", help="but for what failed")
    parser.add_argument("--page", type=Path, help="write the tables there, in Markdown")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
