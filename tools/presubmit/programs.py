# SPDX-License-Identifier: Apache-2.0
"""Find and run ruff, mypy and other tools. They come from pinned packages, not from PATH."""

from __future__ import annotations

import collections.abc
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys

from tools.presubmit import finding


def ruff() -> list[str]:
    """Return the command that starts ruff."""
    # Our Bazel rules install scripts in the first location, and pip installs them in the second.
    return [_packaged("ruff", "bin/ruff", "../../../bin/ruff")]


def clang_format() -> list[str]:
    """Return the command that starts the clang-format binary, not the wheel's Python wrapper."""
    return [_packaged("clang-format", "clang_format/data/bin/clang-format")]


def mypy() -> list[str]:
    """Return the command that starts mypy with this program's interpreter."""
    if importlib.util.find_spec("mypy") is None:
        raise _missing("mypy")
    return [sys.executable, "-m", "mypy"]


def buildifier() -> list[str]:
    """Return the command that starts buildifier.

    Raises:
        EnvironmentProblem: Bazel could not fetch buildifier.
    """
    try:
        package = importlib.import_module("bazel_buildifier")
    except ModuleNotFoundError as error:
        raise _missing("bazel_buildifier") from error
    if package.PROGRAM is None:
        raise finding.EnvironmentProblem(
            f"buildifier could not be fetched: {package.WHY_NOT}; "
            "with a network, run: ./bazelw fetch --force --repo=@buildifier"
        )
    return [package.PROGRAM]


def run(
    command: list[str],
    arguments: collections.abc.Iterable[str],
    *,
    root: pathlib.Path,
    ok: collections.abc.Container[int] = (0, 1),
) -> subprocess.CompletedProcess[str]:
    """Run a program in `root` and return its output.

    Raises:
        EnvironmentProblem: the program did not start, or its exit status is not in `ok`.
    """
    name = pathlib.Path(command[-1]).name
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=root,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    except OSError as error:
        raise finding.EnvironmentProblem(
            f"{command[0]}: cannot start {name}: {error}; rebuild with ./bazelw build "
            "//tools/presubmit"
        ) from error
    if done.returncode not in ok:
        output = (done.stderr or done.stdout).strip()
        raise finding.EnvironmentProblem(
            f"{command[0]}: {name} ended with {done.returncode}: {output}; "
            "if its configuration changed, see pyproject.toml and .clang-format"
        )
    return done


def _packaged(distribution: str, *places: str) -> str:
    """Return the path of an installed distribution's executable, searching `places` in order."""
    try:
        installed = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise _missing(distribution) from error
    paths = [os.path.realpath(str(installed.locate_file(file))) for file in places]
    for path in paths:
        if os.access(path, os.X_OK):
            return path
    raise finding.EnvironmentProblem(
        f"{distribution} {installed.version}: no executable at {' or '.join(paths)}; "
        "check where third_party/pypi installs the wheel's files"
    )


def _missing(distribution: str) -> finding.EnvironmentProblem:
    return finding.EnvironmentProblem(
        f"{distribution} is not among this program's packages; "
        "start it with: ./bazelw run //tools/presubmit"
    )
