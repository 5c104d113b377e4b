# SPDX-License-Identifier: Apache-2.0
"""Run one shard of a group of test suites in this process.

Usage: python -m tests.fbcode.shard SUITES INDEX/SHARDS RESULTS [pytest options]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tests.fbcode.recording import FILE
from tests.fbcode.sample import VARIABLE
from tools.par.testing import pytest_main
from torch_google.tpu.testing import quick_compiler

SUITES = {
    "devices": (
        "devices/modules_test.py",
        "devices/operators_test.py",
        "devices/optimizers_test.py",
        "devices/restrictions_test.py",
    ),
    "distributed": (
        "distributed/device_test.py",
        "distributed/processes_test.py",
        "distributed/threads_test.py",
    ),
}


def main(argv: Sequence[str]) -> int:
    """Run the tests that have no result yet. Return pytest's status: 5 if there are none."""
    suites, shard, results, *options = argv
    # Use the settings of .bazelrc and BUILD, but turn off XLA's optimizations.
    os.environ.update(
        PYTORCH_TEST_FBCODE="1",
        PYTORCH_DISABLE_RUNNING_SCRIPT_CHK="1",
        OMP_NUM_THREADS="1",
        TORCH_TPU_CPU_KERNELS="0",
        XLA_FLAGS=f"{quick_compiler.XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}",
    )
    os.environ[VARIABLE] = shard
    os.environ[FILE] = os.path.abspath(results)
    sys.argv[1:] = ["-p", "tests.fbcode.recording", *options]
    tests = [f"tests/fbcode/{test}" for test in SUITES[suites]]
    return pytest_main.run(__file__, __name__, tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
