# SPDX-License-Identifier: Apache-2.0
"""Reject paths and symlinks that point outside the destination, and invalid destinations."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from tools.importer.errors import UserError
from tools.importer.git_repo.repository import TREE, Repository
from tools.importer.snapshot import SYMLINK

_LINKS = 40  # Linux follows at most this many links


def check_destination(destination: str, repository: Repository, commit: str | None) -> str:
    """Return `destination` without trailing slashes. Raises UserError unless it is a safe path.

    It must be inside the repository. Each of its parents must be a directory, both in `commit` and
    in the working tree, and not a symlink, a file or a submodule.
    """
    path = destination.rstrip("/")
    fault = path_fault(path) or ("it has a line end" if "\n" in path else None)
    if fault:
        raise UserError(
            f"--at {destination}: {fault}. Give a directory below {repository.path}, "
            "such as third_party/py/torch"
        )
    parts = path.split("/")
    for depth in range(len(parts)):
        below, name = "/".join(parts[:depth]), parts[depth]
        here = "/".join(parts[: depth + 1])
        if repository.work_tree and (repository.work_tree / here).is_symlink():
            raise UserError(
                f"--at {destination}: {here} is a symbolic link in {repository.path}. "
                "Name the directory that it stands for"
            )
        if commit is None:
            continue
        directory = repository.directory(commit, below)
        entry = repository.children(directory).get(name) if directory else None
        if entry is None:
            commit = None
        elif entry.mode != TREE:
            kind = {SYMLINK: "a symbolic link", "160000": "a submodule"}.get(entry.mode, "a file")
            raise UserError(
                f"--at {destination}: {here} is {kind} in {repository.path}. Name a directory of its own"
            )
    return path


def path_fault(path: str) -> str | None:
    """Return why `path` is not a plain relative path, or None if it is one."""
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "an absolute path"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"'{part}' in a path could lead outside"
        if part.lower() == ".git":
            return f"'{part}' is git's own directory"
    if "\0" in path or "\\" in path:
        return "a character that leads elsewhere on some machines"
    return None


def check_paths(paths: Iterable[str], origin: str) -> None:
    """Raise a UserError naming `origin` if an upstream path points outside the destination."""
    for path in paths:
        fault = path_fault(path)
        if fault:
            raise UserError(
                f"{origin}: {path!r}: {fault}. Upstream's tree is damaged; use another origin"
            )


def check_links(links: Mapping[str, str], origin: str) -> None:
    """Raise a UserError naming `origin` if a symlink points outside its tree.

    `links` maps the path of each symlink to its target.
    """
    for path in sorted(links):
        fault = _escape(path, links)
        if fault:
            raise UserError(
                f"{origin}: {path} is a symbolic link to {links[path]!r}, {fault}. "
                "Remove it by a patch, or leave it out with --keep"
            )


class Globs:
    """A set of paths defined by globs: `*` does not match slashes, but `**` does."""

    def __init__(self, globs: Sequence[str]) -> None:
        self.globs = tuple(globs)
        for glob in self.globs:
            if not glob or glob.startswith("/") or "\n" in glob:
                raise UserError(
                    f"--keep {glob!r}: not a glob of paths below the destination. Write torch/google/**"
                )

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and bool(self.globs) and bool(self._pattern.fullmatch(path))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(_expression(glob) for glob in self.globs), re.DOTALL)


def _expression(glob: str) -> str:
    parts = []
    for piece in re.split(r"(\*\*/?|\*|\?|\[[^]]*\])", glob):
        if piece.startswith("**"):
            parts.append(r"(?:[^/]+/)*" if piece.endswith("/") else ".*")
        elif piece == "*":
            parts.append("[^/]*")
        elif piece == "?":
            parts.append("[^/]")
        elif piece.startswith("["):
            parts.append(fnmatch.translate(piece)[4:-3])
        else:
            parts.append(re.escape(piece))
    return "(?:" + "".join(parts) + ")"


def _escape(path: str, links: Mapping[str, str]) -> str | None:
    """Return a description of where a symlink leaves the tree, or None if it does not.

    Chains of links are followed as the kernel does.
    """
    resolved: list[str] = path.split("/")[:-1]
    todo = links[path].split("/")
    if links[path].startswith("/"):
        return "an absolute path"
    followed = 0
    while todo:
        part = todo.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            if not resolved:
                return "outside the tree"
            resolved.pop()
            continue
        resolved.append(part)
        target = links.get("/".join(resolved))
        if target is None:
            continue
        followed += 1
        if followed > _LINKS:
            return "a circle of links"
        if target.startswith("/"):
            return f"through {'/'.join(resolved)}, which is an absolute path"
        resolved.pop()
        todo = target.split("/") + todo
    if resolved and resolved[0].lower() == ".git":
        return "git's own directory"
    return None
