# SPDX-License-Identifier: Apache-2.0
"""Run torch v2.6.0's tests of torch.distributed on tpu and the CPU, and compare the outcomes.

    run --results /tmp/results                         # all files; resumes
    run tensor_parallel test_device_mesh --results /tmp/results
    run --results /tmp/results --no-run --publish "$PWD/tests/upstream/distributed"

Arguments are areas or test files (catalogue.py). Options after `--` go to pytest. The CPU runs only
the tests that failed on tpu. The exit status is 0 if every failure is listed in exceptions.json or
not_applicable.json, or also occurs on the CPU with the same error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fbcode.page import put
from tests.upstream.distributed import adaptation, catalogue, comparison, page
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_PROGRAM = ("-m", "tests.upstream.distributed.files")


def main(argv: Sequence[str]) -> int:
    """Return 0 if tests ran and none has the verdict FAILED, else 1."""
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
    for device in catalogue.DEVICES if not options.no_run else ():
        run_files(files, device, options.results, for_pytest, again=options.again)
    tests = comparison.collect(options.results)
    rows = comparison.judge(tests)
    print("\n".join(page.counts(rows)))
    unexplained = [row for row in rows if row.verdict is comparison.Verdict.FAILED]
    for row in unexplained:
        print(f"failed: {row.name}: {row.reason}")
    if options.publish:
        _publish(tests, comparison.complete(options.results), options.publish)
    return 1 if unexplained or not rows else 0


def run_files(
    files: Sequence[str],
    device: str,
    results: Path,
    for_pytest: Sequence[str] = (),
    *,
    again: bool = False,
) -> None:
    """Run the tests in `files` that have no outcome on `device` yet.

    On the CPU, run only the tests that failed on tpu.
    """
    if device == "cpu":
        files = [file for file in files if comparison.failed(results, file)]
    if not files:
        return
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "OMP_NUM_THREADS": "1",
        # The timeout of torch's test framework, in seconds. It is long enough for a busy machine.
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "900",
        "TORCH_TPU_CPU_DEVICES": str(adaptation.COUNT),
        "TORCH_TPU_COMPILE_CACHE": str(results.absolute() / "cache"),
        "TORCH_TPU_CPU_KERNELS": "0",  # run programs, as on a TPU
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", XLA_FLAGS),
        catalogue.DEVICE: device,
    }
    command = [sys.executable, *_PROGRAM, *files, f"--results={results.absolute()}"]
    command += ["--again"] if again else []
    command += [f"--pytest={option}" for option in for_pytest]
    subprocess.run(command, env=environment, check=True)


def _publish(tests: Sequence[comparison.Outcomes], whole: Sequence[str], folder: Path) -> None:
    """Write results.json and TABLE.md. Test files that did not run keep their old outcomes."""
    published = folder / comparison.RESULTS.name
    if published.exists():
        tests, whole = comparison.updated(published, tests, whole)
    comparison.save(tests, published, whole)
    rows = comparison.judge(tests)
    put(page.text(rows, comparison.incomplete(published)), folder / "TABLE.md")


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
