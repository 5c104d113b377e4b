# SPDX-License-Identifier: Apache-2.0
"""List and read the files to check: tracked files, and untracked files that are not ignored."""

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
    """A work tree: its root, and the relative paths of its regular files, sorted."""

    def __init__(self, root: pathlib.Path, paths: collections.abc.Iterable[str]) -> None:
        self.root = root
        self.paths = tuple(sorted(paths))
        self._read = functools.cache(self._read_text)

    @classmethod
    def of_git(cls, root: pathlib.Path) -> Tree:
        """Return all files in a git work tree, except untracked files that git ignores.

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
        # git lists a path with a merge conflict more than once, and a deleted file until its
        # deletion is staged.
        return cls(root, (p for p in listed if _is_regular(root / p)))

    def text(self, path: str) -> str:
        """Return a file's text, or "" if the file is not UTF-8, such as an image or an archive."""
        return self._read(path)

    def lines(self, path: str) -> list[str]:
        """Return a file's lines without line endings."""
        return self.text(path).splitlines()

    def python(self) -> list[str]:
        """Return the paths of Python sources and stubs."""
        return [path for path in self.paths if path.endswith(PYTHON_SUFFIXES)]

    def starlark(self) -> list[str]:
        """Return the paths of Starlark files: BUILD files, *.bzl, *.BUILD, MODULE.bazel."""
        return [
            path
            for path in self.paths
            if path.endswith(STARLARK_SUFFIXES) or _name(path) in STARLARK_NAMES
        ]

    def c_sources(self) -> list[str]:
        """Return the paths of C and C++ sources and headers."""
        return [path for path in self.paths if path.endswith(C_SUFFIXES)]

    def scripts(self) -> list[str]:
        """Return the paths of files that start with `#!`."""
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
    """Return the environment without variables such as GIT_DIR, which git sets for its hooks."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
