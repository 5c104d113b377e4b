# SPDX-License-Identifier: Apache-2.0
"""Run libraries' own tests on the CPU, then on tpu, and write results.json and SUITES.md.

    python -m tests.ecosystem.suites.run --work /tmp/suites                    every suite
    python -m tests.ecosystem.suites.run --work /tmp/suites timm gpytorch      some suites
    python -m tests.ecosystem.suites.run --work /tmp/suites timm --again       rerun failed tests

Run it with the Python of the environment that `tests.ecosystem.install` created. The directory
`--work` stores the sources, compiled programs and outcomes, so an interrupted run can be resumed.
The exit status is 1 if a test fails on tpu and suites.json does not list a cause for the failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.ecosystem import device_check
from tests.ecosystem.suites import catalogue, page, results, tree
from tests.ecosystem.suites.device import Run
from tests.ecosystem.suites.results import Result
from tests.fbcode import outcomes, recording
from third_party.pypi.sdist import SdistError
from tools.presubmit.results import Outcome

_ROOT = Path(__file__).parents[3]
DEVICES = ("cpu", "tpu")


class SuiteError(Exception):
    """Raised if pytest cannot run a suite. The message is one line."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites = catalogue.load()
    parser.add_argument("suites", nargs="*", help=f"default: all; {', '.join(suites)}")
    parser.add_argument("--work", type=Path, required=True, help="a directory to keep")
    parser.add_argument("--again", action="store_true", help="repeat the failures on tpu")
    parser.add_argument("--seconds", type=float, default=120, help="the limit for a test")
    parser.add_argument("--batch", type=int, default=800, help="tests in one process")
    parser.add_argument("--keep", action="store_true", help="do not write results.json")
    flags = parser.parse_args(argv)
    unknown = sorted(set(flags.suites) - set(suites))
    if unknown:
        parser.error(f"no suite {unknown[0]}; there are {', '.join(suites)}")
    work = flags.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    try:
        device_check.check(_environment("tpu", work), work)
    except device_check.DeviceError as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    unexplained = []
    for name in flags.suites or suites:
        try:
            result = run(name, work, again=flags.again, batch=flags.batch, seconds=flags.seconds)
        except (SdistError, SuiteError, ValueError) as error:
            print(f"run: {error}", file=sys.stderr)
            return 1
        print(f"{name}: {result.tpu_passed} of {result.cpu_passed} pass", flush=True)
        if not flags.keep:
            results.record(result)
            page.write(results.read())
        for failure in result.failures:
            print(f"failed: {name}: {failure.test}: {failure.error}")
            if not catalogue.reason(suites[name].causes, failure.test):
                unexplained.append(failure)
    return 1 if unexplained else 0


def run(
    name: str,
    work: Path,
    *,
    again: bool = False,
    batch: int,
    seconds: float,
    file: Path = catalogue.FILE,
) -> Result:
    """Run a suite's tests on the CPU and on tpu, except those that have an outcome in `work`.

    Raises an SdistError or a ValueError if the suite's sources cannot be used, and a SuiteError if
    pytest fails. Tests that fail on the CPU do not run on tpu.
    """
    suite = catalogue.load(file)[name]
    directory = tree.prepare(suite, work)
    ran = {}
    only: list[list[str]] | None = None
    for device in DEVICES:
        journal = work / f"{suite.name}-{suite.sha256[:12]}-{device}.jsonl"
        begun = time.monotonic()
        one = Run(str(file), name, device, str(directory), str(journal), batch, seconds, only)
        repeat = again and device != "cpu"
        _finish(one, suite.variables(device), work, repeat)
        # Ignore tests that suites.json no longer includes.
        ran[device] = {
            key: test
            for key, test in outcomes.read(journal).items()
            if suite.includes("::".join(key))
        }
        print(f"{suite.name} on {device}: {time.monotonic() - begun:.0f} s", flush=True)
        only = [list(key) for key, row in ran[device].items() if row.outcome is not Outcome.FAILED]
    return results.summarize(suite, ran["cpu"], ran["tpu"])


def _environment(device: str, work: Path) -> dict[str, str]:
    return {
        "TORCH_TPU_COMPILE_CACHE": str(work / "programs"),
        **os.environ,
        # Pass on sys.path, because under `bazel test`, a new interpreter does not find the
        # packages.
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, sys.path)]),
        # Some tests run a command that their library installs.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        # On the CPU, do not load the device, as on a machine without it.
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0" if device == "cpu" else "1",
    }


def _finish(run: Run, variables: Mapping[str, str], work: Path, again: bool) -> None:
    """Start processes until every test has an outcome."""
    journal = Path(run.journal)
    description = work / f"{run.suite}-{run.device}.run.json"
    description.write_text(run.json(), encoding="utf-8")
    environment = {
        **_environment(run.device, work),
        **variables,
        recording.FILE: run.journal,
        recording.FOLDER: run.tree,
        recording.AGAIN: "1" if again else "",
    }
    command = [sys.executable, "-m", "tests.ecosystem.suites.child", str(description)]
    log = work / f"{run.suite}-{run.device}.log"
    while True:
        size = journal.stat().st_size if journal.exists() else 0
        with log.open("a", encoding="utf-8") as output:
            status = subprocess.run(
                command, cwd=_ROOT, env=environment, stdout=output, stderr=output, check=False
            ).returncode
        died = outcomes.confirm(journal, status, size)
        wrote = journal.exists() and journal.stat().st_size > size
        if again:
            # Rerun failed tests only once, in the first process.
            environment[recording.AGAIN] = ""
        if status == pytest.ExitCode.NO_TESTS_COLLECTED:
            return
        if not died and not wrote:
            raise SuiteError(f"{run.suite}: pytest exited {status}; see {log}")


if __name__ == "__main__":
    sys.exit(main())
