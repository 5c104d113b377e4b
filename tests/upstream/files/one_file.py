# SPDX-License-Identifier: Apache-2.0
"""Run one of torch's test files in this process: FILE [pytest options].

exceptions.json lists the known failures. UPSTREAM_SHARE=INDEX/SHARDS selects a part of the file's
tests. UPSTREAM_DEVICE=tpu selects the device-generic tests and runs them on tpu.
FBCODE_RESULTS=FILE appends each outcome to a file; tests that have an outcome in the file do not
run again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence

from tests.fbcode import recording
from tests.upstream.files import catalogue, device, exceptions, limits
from tools.par.testing import pytest_main

# The settings of torch's pytest.ini. Assertion rewriting is off, because torch's tests contain no
# assert statements. Log capture is off, because they log invalid format strings and count log
# handlers.
_OPTIONS = [
    "--capture=sys",
    "--tb=native",
    "--override-ini=xfail_strict=true",
    "--override-ini=markers=serial: upstream's runner runs it alone",
    "--assert=plain",
    "-pno:logging",
    "-pno:warnings",
]


def main(argv: Sequence[str]) -> int:
    """Run a file's tests. Return pytest's status: 5 if every test already has an outcome."""
    (name,), options = catalogue.chosen([*argv[:1]]), argv[1:]
    folder = catalogue.root()
    # torch's test framework reads these variables when it is imported, so set them first.
    os.environ.update(PYTORCH_TEST_FBCODE="1", PYTORCH_DISABLE_RUNNING_SCRIPT_CHK="1")
    # TorchScript's fuser calls the compiler that built torch, which is g++ for releases.
    os.environ.setdefault("CXX", "g++")
    try:
        device.prepare()
    except ValueError as error:
        print(f"one_file: {error}", file=sys.stderr)
        return 1
    plugins = [device.__name__, exceptions.__name__, limits.__name__]
    if os.environ.get(recording.FILE):
        plugins.append(recording.__name__)
    sys.argv[1:] = [*_OPTIONS, *(f"-p{plugin}" for plugin in plugins)]
    sys.argv += [f"--rootdir={folder}", *options, str(folder / f"{name}.py")]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as scratch:
        # Change the directory, because some tests leave files in the current one.
        os.chdir(scratch)
        try:
            return pytest_main.run(__file__, __name__, [])
        finally:
            os.chdir(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
