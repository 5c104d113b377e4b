# SPDX-License-Identifier: Apache-2.0
"""Run one of the files in this process, on the device UPSTREAM_DEVICE: FILE [pytest options].

FBCODE_RESULTS=FILE appends each outcome to a file, and tests in it do not run again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence

import pytest

from tests.fbcode import recording
from tests.upstream.distributed import catalogue, ranks

_OPTIONS = [
    "--import-mode=prepend",
    "--noconftest",  # upstream's conftest.py needs another version of pytest
    "--tb=native",
    "--assert=plain",
    "--override-ini=markers=serial: upstream's runner runs it alone",
    "--strict-markers",
    "-q",
    "-pno:cacheprovider",
    "-pno:logging",
    "-pno:warnings",
    f"-p{ranks.__name__}",
]


def main(argv: Sequence[str]) -> int:
    """Return pytest's exit status."""
    (name,), options = catalogue.chosen([*argv[:1]]), argv[1:]
    folder = catalogue.root()
    file = folder / "distributed" / f"{name}.py"
    # Test files import modules next to them, and ranks import the test files.
    sys.path[:0] = [str(file.parent), str(folder)]
    recorded = [f"-p{recording.__name__}"] if os.environ.get(recording.FILE) else []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as scratch:
        os.chdir(scratch)  # Some tests leave files in the current directory.
        return int(pytest.main([*_OPTIONS, *recorded, f"--rootdir={folder}", *options, str(file)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
