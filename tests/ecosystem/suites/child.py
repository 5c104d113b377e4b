# SPDX-License-Identifier: Apache-2.0
"""Run tests of a suite in this process: `python -m tests.ecosystem.suites.child FILE`.

FILE contains a `device.Run` as JSON. FBCODE_RESULTS is the file to which outcomes are appended.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from torch_google.tpu.testing import quick_compiler

# Set the environment variables before the imports below, because the device and some libraries read
# them only once.
quick_compiler.use()
os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")  # run programs, as on a TPU
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest  # noqa: E402
import torch  # noqa: E402

from tests.ecosystem import cuda_stand_in  # noqa: E402
from tests.ecosystem.suites import catalogue, device  # noqa: E402
from tests.fbcode import recording  # noqa: E402

_ROOT = Path(__file__).parents[3]


def main(argv: list[str]) -> int:
    """Run tests and return pytest's exit status, or NO_TESTS_COLLECTED if no test remains."""
    run = device.Run(**json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    suite = catalogue.load(Path(run.suites))[run.suite]
    tree = Path(run.tree)
    os.chdir(tree)
    torch.set_num_threads(1)
    cuda_stand_in.load()
    selection = device.Device(run, suite)
    _make_room(tree)
    status = pytest.main(
        [
            "-p", "no:cacheprovider", "-p", "no:warnings", "--tb=short", "--quiet", "--no-header",
            "-W", "ignore", "-o", "addopts=", f"--rootdir={tree}", *suite.paths,
        ],
        [recording, selection],
    )  # fmt: skip
    ran = status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return pytest.ExitCode.NO_TESTS_COLLECTED if ran and selection.is_last else status


def _make_room(tree: Path) -> None:
    """Make `tests` refer to the suite's package instead of the workspace's package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    sys.path[:] = [str(tree), *(entry for entry in sys.path if Path(entry or ".") != _ROOT)]
    sys.path.append(str(_ROOT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
