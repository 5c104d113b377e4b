# SPDX-License-Identifier: Apache-2.0
"""Check paths and links from untrusted trees: they must stay in the tree and outside `.git`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tools.importer.errors import UserError
from tools.importer.names import escapes


def check_path(path: str, source: str) -> str:
    """Return `path` if it is plain and below the tree. Raises UserError, which names `source`."""
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
    """Return whether a path is in a `.git` directory, or is a worktree's `.git` file."""
    return ".git" in path.lower().split("/")


def check_link(path: str, target: str, source: str) -> str:
    """Return a link's target. Raises UserError if it leads out of the tree."""
    if escapes(path, target) or "\0" in target:
        raise UserError(
            f"{source}: the link {path!r} leads out of the tree, to {target!r}."
            " Nothing was taken from it; distrust it"
        )
    return target


def check_nesting(files: Iterable[str], source: str) -> None:
    """Raise UserError if a file's parent is itself a file or a link."""
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
