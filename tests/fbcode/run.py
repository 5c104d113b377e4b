# SPDX-License-Identifier: Apache-2.0
"""Run the suites over the whole of torch's tables, or a share of them, and say what became of it.

    python -m tests.fbcode.run devices --share 5/96 --results ops.xml -- -k operators -x

Behind `--` are pytest's own options. The tables at the end are those of `tools/presubmit/account.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fbcode.sample import VARIABLE
from tools.par.testing import pytest_main
from tools.presubmit import account

_SUITES = {
    "devices": (
        "devices/modules_test.py",
        "devices/operators_test.py",
        "devices/optimizers_test.py",
        "devices/restrictions_test.py",
    ),
    "distributed": ("distributed/processes_test.py", "distributed/threads_test.py"),
}


def main(argv: Sequence[str]) -> int:
    """Returns pytest's exit status: 0 when all that ran passed."""
    ours, behind = [*argv], []
    if "--" in ours:
        ours, behind = ours[: ours.index("--")], ours[ours.index("--") + 1 :]
    options = _parse(ours)
    # What .bazelrc and BUILD say of these tests.
    os.environ.update(
        PYTORCH_TEST_FBCODE="1", OMP_NUM_THREADS="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false"
    )
    os.environ[VARIABLE] = options.share
    with tempfile.TemporaryDirectory() as scratch:
        results = options.results or str(Path(scratch, f"{options.suites}.xml"))
        os.environ["XML_OUTPUT_FILE"] = os.path.abspath(results)
        sys.argv[1:] = behind
        tests = [f"tests/fbcode/{test}" for test in _SUITES[options.suites]]
        status = pytest_main.run(__file__, __name__, tests)
        if Path(results).exists():
            account.main([results])
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("suites", choices=sorted(_SUITES))
    parser.add_argument("--share", default="0/1", help="of the tables, INDEX/SHARES; default: all")
    parser.add_argument("--results", help="keep them there, in JUnit's form")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
