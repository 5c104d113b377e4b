# SPDX-License-Identifier: Apache-2.0
"""Reject paths and symlinks of untrusted trees that point outside the tree or into `.git`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tools.importer.errors import UserError
from tools.importer.names import escapes


def check_path(path: str, source: str) -> str:
    """Return `path`. Raises a UserError naming `source` if it may point outside the tree."""
    parts = path.split("/")
    if path.startswith("/"):
        fault = "is absolute"
    elif ".." in parts:
        fault = "has '..' in it"
    elif "" in parts or "." in parts or "\0" in path:
        fault = "is not a plain path"
    elif is_gits_own(path):
        fault = "is git's own"
    else:
        return path
    raise UserError(f"{source}: the path {path!r} {fault}. Nothing was taken from it; distrust it")


def is_gits_own(path: str) -> bool:
    """Return whether `path` is in a `.git` directory or is the `.git` file of a worktree."""
    return ".git" in path.lower().split("/")


def check_link(path: str, target: str, source: str) -> str:
    """Return the `target` of a symlink at `path`. Raises UserError if it is outside the tree."""
    if escapes(path, target) or "\0" in target:
        raise UserError(
            f"{source}: the link {path!r} leads out of the tree, to {target!r}."
            " Nothing was taken from it; distrust it"
        )
    return target


def check_nesting(files: Iterable[str], source: str) -> None:
    """Raise UserError if a file's parent is itself a file or a symlink."""
    known = set(files)
    parents: set[str] = set()
    for path in known:
        parent = posixpath.dirname(path)
        while parent and parent not in parents:
            if parent in known:
                raise UserError(
                    f"{source}: {path!r} lies below {parent!r}, which is no directory."
                    " Nothing was taken from it; distrust it"
                )
            parents.add(parent)
            parent = posixpath.dirname(parent)
