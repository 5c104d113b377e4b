#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start the importer, //tools/importer:import with its pinned dependencies, from any python3.

This file uses only the standard library of Python 3.9 or later. The importer is in tools/importer;
see its README.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

_WORKSPACE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_TARGET = "//tools/importer:import"
_BUILT = os.path.join(_WORKSPACE, "bazel-bin", "tools", "importer", "import")
_ENVIRONMENT = 3  # the importer's exit status for failures of the environment

# Show Bazel's errors, but not its other messages, which would mix with the importer's output.
_QUIET = [
    "--ui_event_filters=-info,-debug,-warning",
    "--noshow_loading_progress",
    "--show_result=0",
]


def main(arguments: list[str]) -> int:
    """Replace this process with the importer. Return an exit status only if it cannot start."""
    with tempfile.TemporaryDirectory(prefix="import-py-") as scratch:
        script = os.path.join(scratch, "start")
        problem = build(script)
        if problem:
            print(f"import.py: {problem}", file=sys.stderr)
            return _ENVIRONMENT
        with open(script, encoding="utf-8") as file:
            text = file.read()
    environment = {
        **os.environ,
        "BUILD_WORKSPACE_DIRECTORY": _WORKSPACE,
        "IMPORT_PY_CALLED_FROM": os.getcwd(),
    }
    # Bazel wrote a bash script. Pass its text, because the temporary file is already deleted.
    os.execvpe("bash", ["bash", "-c", text, "import.py", *arguments], environment)


def build(script: str) -> str:
    """Let Bazel build the importer and write its start script. Return the error, or ""."""
    options = list(_QUIET)
    if os.path.exists(_BUILT):
        options.append("--noshow_progress")
    else:
        line = (
            "import.py: setting up its interpreter and dependencies; the first start takes minutes"
        )
        print(line, file=sys.stderr, flush=True)
    # Let Bazel write a script instead of running the importer. So Bazel's exit status and output
    # stay separate from the importer's, and Bazel's lock is free while the importer runs.
    command = [
        os.path.join(_WORKSPACE, "bazelw"),
        "run",
        *options,
        f"--script_path={script}",
        _TARGET,
    ]
    try:
        status = subprocess.run(command, cwd=_WORKSPACE, stdout=sys.stderr, check=False).returncode
    except OSError as error:
        return f"{command[0]}: {error.strerror}. Restore the file from git"
    if status:
        return f"{_TARGET} could not be built: bazelw exited with {status}; see its output above"
    return ""


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - any python3 on the machine may run this file
        print("import.py: needs Python 3.9 or later to start", file=sys.stderr)
        sys.exit(_ENVIRONMENT)
    sys.exit(main(sys.argv[1:]))
