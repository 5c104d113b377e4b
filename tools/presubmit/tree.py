# SPDX-License-Identifier: Apache-2.0
"""The checked files: those tracked by git, and untracked ones that are not ignored."""

from __future__ import annotations

import collections.abc
import functools
import os
import pathlib
import subprocess

from tools.presubmit import finding

C_SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp")
PYTHON_SUFFIXES = (".py", ".pyi")
STARLARK_SUFFIXES = (".bzl", ".BUILD")
STARLARK_NAMES = ("BUILD", "BUILD.bazel", "MODULE.bazel", "WORKSPACE")


class Tree:
    """A work tree: its root and the sorted relative paths of its regular files."""

    def __init__(self, root: pathlib.Path, paths: collections.abc.Iterable[str]) -> None:
        self.root = root
        self.paths = tuple(sorted(paths))
        self._read = functools.cache(self._read_text)

    @classmethod
    def of_git(cls, root: pathlib.Path) -> Tree:
        """Return the tree of tracked files and untracked ones that are not ignored.

        Raises:
            EnvironmentProblem: git is missing, or `root` is not in a work tree.
        """
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        try:
            done = subprocess.run(
                command,
                cwd=root,
                env=_without_callers_repository(os.environ),
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise finding.EnvironmentProblem(
                f"{root}: cannot run git: {error}; install git or run from a git work tree"
            ) from error
        if done.returncode != 0:
            raise finding.EnvironmentProblem(
                f"{root}: git ls-files ended with {done.returncode}: {done.stderr.strip()}; "
                "run from a git work tree"
            )
        listed = {path for path in done.stdout.split("\0") if path}
        # A merge lists a path more than once, and a deleted file is listed until that is staged.
        return cls(root, (p for p in listed if _is_regular(root / p)))

    def text(self, path: str) -> str:
        """Return the file as text; empty for a file that is not UTF-8 (a picture, an archive)."""
        return self._read(path)

    def lines(self, path: str) -> list[str]:
        """Return the file's lines without line ends."""
        return self.text(path).splitlines()

    def python(self) -> list[str]:
        """Return the Python sources and stubs."""
        return [path for path in self.paths if path.endswith(PYTHON_SUFFIXES)]

    def starlark(self) -> list[str]:
        """Return BUILD files, overlays for other trees (NAME.BUILD), module and .bzl files."""
        return [
            path
            for path in self.paths
            if path.endswith(STARLARK_SUFFIXES) or _name(path) in STARLARK_NAMES
        ]

    def c_sources(self) -> list[str]:
        """Return C and C++ sources and headers."""
        return [path for path in self.paths if path.endswith(C_SUFFIXES)]

    def scripts(self) -> list[str]:
        """Return the files that start with `#!`."""
        return [path for path in self.paths if self.text(path).startswith("#!")]

    def _read_text(self, path: str) -> str:
        try:
            return (self.root / path).read_bytes().decode()
        except UnicodeDecodeError:
            return ""


def _is_regular(path: pathlib.Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _without_callers_repository(
    environment: collections.abc.Mapping[str, str],
) -> dict[str, str]:
    """Drop GIT_DIR, GIT_INDEX_FILE and similar, which a hook of another repository may set."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
