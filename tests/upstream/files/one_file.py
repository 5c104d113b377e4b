# SPDX-License-Identifier: Apache-2.0
"""One of torch's test files, in this process: FILE [options of pytest].

What is known not to pass is in exceptions.json. With UPSTREAM_SHARE=INDEX/SHARES only a share of
the file's tests, with UPSTREAM_DEVICE=tpu only those for any device, on tpu; with
FBCODE_RESULTS=FILE each outcome is a line there, and what it has is not run again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence

from tests.fbcode import recording
from tests.upstream.files import catalogue, device, exceptions, limits
from tools.par.testing import pytest_main

# As upstream's own pytest.ini has it. Its tests do not assert by the statement: nothing to rewrite.
# They log what is no format, and count the handlers: pytest's are not for them.
_OPTIONS = [
    "--capture=sys",
    "--tb=native",
    "--override-ini=xfail_strict=true",
    "--override-ini=markers=serial: upstream's runner starts nothing beside it",
    "--assert=plain",
    "-pno:logging",
    "-pno:warnings",
]


def main(argv: Sequence[str]) -> int:
    """Return pytest's exit status: 0 if all remaining tests passed, 5 if none remained."""
    (name,), options = catalogue.chosen([*argv[:1]]), argv[1:]
    folder = catalogue.root()
    # Before torch's machinery for tests is imported, which asks.
    os.environ.update(PYTORCH_TEST_FBCODE="1", PYTORCH_DISABLE_RUNNING_SCRIPT_CHK="1")
    # TorchScript's fuser starts the kind of compiler that torch was made with: of releases that is
    # this.
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
        # Some tests leave files where they are.
        os.chdir(scratch)
        try:
            return pytest_main.run(__file__, __name__, [])
        finally:
            os.chdir(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
