#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start the importer from a bare python3: //tools/importer:import, with its pinned dependencies.

Standard library only, Python 3.9 or later. All that it does is in tools/importer; see its README.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

_WORKSPACE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_TARGET = "//tools/importer:import"
_BUILT = os.path.join(_WORKSPACE, "bazel-bin", "tools", "importer", "import")
_ENVIRONMENT = 3  # an exit status of tools/importer/errors.py

# A failed build still says why; all else would only stand between the lines of the importer.
_QUIET = [
    "--ui_event_filters=-info,-debug,-warning",
    "--noshow_loading_progress",
    "--show_result=0",
]


def main(arguments: list[str]) -> int:
    """Become the importer. Returns only when it cannot be started."""
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
    # The text itself, since the file is gone by then; Bazel's scripts are bash's.
    os.execvpe("bash", ["bash", "-c", text, "import.py", *arguments], environment)


def build(script: str) -> str:
    """Have Bazel build the importer and write a script that starts it. Returns what went wrong."""
    options = list(_QUIET)
    if os.path.exists(_BUILT):
        options.append("--noshow_progress")
    else:
        line = (
            "import.py: setting up its interpreter and dependencies; the first start takes minutes"
        )
        print(line, file=sys.stderr, flush=True)
    # A script, not a plain run: so Bazel's exit status is never taken for the importer's, nothing of
    # Bazel's gets into its output, and Bazel is free for others while it works.
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
        return f"{_TARGET} could not be built: bazelw ended with {status}, its words are above"
    return ""


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - whatever python3 is on the machine
        print("import.py: needs Python 3.9 or later to start", file=sys.stderr)
        sys.exit(_ENVIRONMENT)
    sys.exit(main(sys.argv[1:]))
