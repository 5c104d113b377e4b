# SPDX-License-Identifier: Apache-2.0
"""Run torch v2.6.0's tests of torch.distributed on tpu and on the CPU, and compare the two.

    run --results /tmp/results                         # all files; resumes
    run tensor_parallel test_device_mesh --results /tmp/results
    run --results /tmp/results --no-run --publish "$PWD/tests/upstream/distributed"

Names are areas or files (catalogue.py). Options after `--` go to pytest. On the CPU, only the tests
that failed on tpu run. Exit status 0: each failure has an explanation (comparison.Verdict).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fbcode import outcomes, recording
from tests.fbcode.page import put
from tests.upstream.distributed import adaptation, catalogue, comparison, page
from tools.presubmit.results import Outcome
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_PROGRAM = ("-m", "tests.upstream.distributed.one_file")
# The time limit of one process, in seconds. In several files, one test takes up to ten minutes.
_TIMEOUT = 3600.0


def main(argv: Sequence[str]) -> int:
    """Return 0 if every failure on tpu has an explanation."""
    own, for_pytest = [*argv], []
    if "--" in own:
        own, for_pytest = own[: own.index("--")], own[own.index("--") + 1 :]
    options = _parse(own)
    try:
        files = catalogue.chosen(options.files)
        catalogue.root()
    except (FileNotFoundError, ValueError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    options.results.mkdir(parents=True, exist_ok=True)
    for file in files if not options.no_run else ():
        for device in catalogue.DEVICES:
            run_file(file, device, options.results, for_pytest, again=options.again)
    tests = comparison.collect(options.results)
    rows = comparison.judge(tests)
    print("\n".join(page.counts(rows)))
    unexplained = [row for row in rows if row.verdict is comparison.Verdict.FAILED]
    for row in unexplained:
        print(f"failed: {row.name}: {row.reason}")
    if options.publish:
        published = options.publish / comparison.RESULTS.name
        comparison.save(tests, published, comparison.complete(options.results))
        put(page.text(rows, comparison.incomplete(published)), options.publish / "TABLE.md")
    return 1 if unexplained or not rows else 0


def run_file(
    file: str, device: str, results: Path, for_pytest: Sequence[str] = (), *, again: bool = False
) -> None:
    """Run a file's remaining tests on a device. On the CPU, run only those that failed on tpu.

    A process is killed after an hour. A test during which the process ended counts as failed, and a
    new process runs the next ones.
    """
    target = comparison.results_file(results, file, device)
    only = ""
    if device == "cpu":
        # If a test passed on tpu, its result on the CPU would not change the verdict.
        on_tpu = comparison.results_file(results, file, "tpu")
        if all(ran.outcome is not Outcome.FAILED for ran in outcomes.read(on_tpu).values()):
            return
        only = str(on_tpu.absolute())
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "OMP_NUM_THREADS": "1",
        "TORCH_TPU_CPU_DEVICES": str(adaptation.COUNT),
        "TORCH_TPU_COMPILE_CACHE": str(results.absolute() / "cache"),
        "XLA_FLAGS": XLA_FLAGS,
        catalogue.DEVICE: device,
        recording.FILE: str(target.absolute()),
        recording.AGAIN: "1" if again else "",
        catalogue.ONLY_FAILED: only,
    }
    while True:
        print(f"=== {file} on {device}", flush=True)
        size = target.stat().st_size if target.exists() else 0
        status = _status([sys.executable, *_PROGRAM, file, *for_pytest], environment)
        if outcomes.confirm(target, status, size):
            environment[recording.AGAIN] = ""  # Do not run failed tests a third time.
            continue
        fine = (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        if status not in fine:
            print(f"run: {file} on {device}: status {status}; see above", file=sys.stderr)
        elif device == "tpu" and not for_pytest:
            comparison.finished(results, file).touch()
        return


def _status(command: Sequence[str], environment: dict[str, str]) -> int:
    try:
        return subprocess.run(command, env=environment, check=False, timeout=_TIMEOUT).returncode
    except subprocess.TimeoutExpired:
        return -9


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help=f"files, or of {', '.join(catalogue.AREAS)}")
    parser.add_argument("--results", type=Path, required=True, help="folder; a run resumes there")
    parser.add_argument("--again", action="store_true", help="run failed tests again")
    parser.add_argument("--no-run", action="store_true", help="only compare the results")
    parser.add_argument("--publish", type=Path, help="folder for TABLE.md and results.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
