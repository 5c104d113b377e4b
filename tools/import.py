#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the importer (//tools/importer:import) with its pinned dependencies, from any python3.

Bazel builds the importer. If no build input has changed since the last build, this script starts
the built program directly, because Bazel would need seconds to determine that nothing has changed.
This script uses only the standard library of Python 3.9 or later. The importer is in
tools/importer; see its README.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator

_WORKSPACE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_TARGET = "//tools/importer:import"
_BUILT = os.path.join(_WORKSPACE, "bazel-bin", "tools", "importer", "import")
_ENVIRONMENT = 3  # the importer's exit status if the environment fails

# This file stores the start script of the last-built importer, and the state of the build inputs
# before that build. The file is in Bazel's output tree, so it does not exist after `bazel clean` or
# a build with other options. The importer is then rebuilt.
_STAMP = _BUILT + ".start"
# The folders that contain all build inputs, except for the files next to MODULE.bazel.
# start_inputs_test compares them with Bazel's own list.
FOLDERS = ("third_party", "tools")
# Files in these folders that the importer itself writes. They are not build inputs.
WRITTEN = frozenset({"METADATA", "import.json", "licence.json", "sbom.spdx.json"})

# Show only Bazel's errors. Its other messages would be interleaved with the importer's output.
_QUIET = [
    "--ui_event_filters=-info,-debug,-warning",
    "--noshow_loading_progress",
    "--show_result=0",
]


def main(arguments: list[str]) -> int:
    """Replace this process with the importer. Return an exit status only if that fails."""
    inputs = _state_of_inputs()
    text = _script_of_last_build(inputs) if inputs else None
    if text is None:
        text, problem = _build()
        if problem:
            print(f"import.py: {problem}", file=sys.stderr)
            return _ENVIRONMENT
        if inputs:
            _remember(inputs, text)
    environment = {
        **os.environ,
        "BUILD_WORKSPACE_DIRECTORY": _WORKSPACE,
        "IMPORT_PY_CALLED_FROM": os.getcwd(),
    }
    # Bazel wrote a bash script. Pass its text to bash, because the script file has been deleted.
    os.execvpe("bash", ["bash", "-c", text, "import.py", *arguments], environment)


def _build() -> tuple[str, str]:
    """Build the importer with Bazel. Return (start script, error), one of which is empty."""
    import subprocess  # not at the top, because runs that need no build do not use them
    import tempfile

    options = list(_QUIET)
    if os.path.exists(_BUILT):
        options.append("--noshow_progress")
    else:
        line = (
            "import.py: setting up its interpreter and dependencies; the first start takes minutes"
        )
        print(line, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="import-py-") as scratch:
        script = os.path.join(scratch, "start")
        # Have Bazel write a script instead of running the importer. This keeps Bazel's exit status
        # and output separate from the importer's, and leaves Bazel's lock free while the importer
        # runs.
        bazelw = os.path.join(_WORKSPACE, "bazelw")
        command = [bazelw, "run", *options, f"--script_path={script}", _TARGET]
        try:
            done = subprocess.run(command, cwd=_WORKSPACE, stdout=sys.stderr, check=False)
        except OSError as error:
            return "", f"{bazelw}: {error.strerror}. Restore the file from git"
        status = done.returncode
        if status:
            problem = f"bazelw exited with {status}; see its output above"
            return "", f"{_TARGET} could not be built: {problem}"
        with open(script, encoding="utf-8") as file:
            return file.read(), ""


def _state_of_inputs() -> str:
    """Return the path and state of each file that the build may read, or "" on an error."""
    try:
        rows = [*_files(_WORKSPACE, deep=False)]
        for folder in FOLDERS:
            rows += _files(os.path.join(_WORKSPACE, folder), deep=True)
    except OSError:
        return ""  # Bazel reports the error
    return "\n".join(sorted(rows))


def _files(folder: str, *, deep: bool) -> Iterator[str]:
    """For each file in `folder`, yield a line that changes if the file is modified or replaced."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if deep and entry.name != "__pycache__":
                    yield from _files(entry.path, deep=True)
            elif entry.name not in WRITTEN and entry.is_file():  # not a link to a folder
                yield f"{entry.path!r} {_state(entry.stat())}"


def _state(info: os.stat_result) -> str:
    return f"{info.st_mode} {info.st_ino} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}"


def _script_of_last_build(inputs: str) -> str | None:
    """Return the start script of the last build, or None if another build may be necessary."""
    try:
        with open(_STAMP, encoding="utf-8", errors="strict") as file:
            info = os.fstat(file.fileno())
            # The script will be executed, so other users must not be able to modify it.
            if info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o022:
                return None
            remembered = file.read()
        head = f"{_state(os.stat(_BUILT))}\n{inputs}\n\n"
    except (OSError, ValueError):
        return None
    return remembered[len(head) :] if remembered.startswith(head) else None


def _remember(inputs: str, script: str) -> None:
    """Cache the script for later runs. If that fails, the next run calls Bazel again."""
    new = f"{_STAMP}.{os.getpid()}"
    try:
        head = f"{_state(os.stat(_BUILT))}\n{inputs}\n\n"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(head + script)
        os.replace(new, _STAMP)
    except (OSError, ValueError):
        if os.path.exists(new):
            os.unlink(new)


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - any python3 on the machine may run this file
        print("import.py: needs Python 3.9 or later to start", file=sys.stderr)
        sys.exit(_ENVIRONMENT)
    sys.exit(main(sys.argv[1:]))
