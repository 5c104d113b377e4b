# SPDX-License-Identifier: Apache-2.0
"""Check paths and links of untrusted trees: refuse those that leave the tree or are git's own."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from tools.importer.errors import UserError
from tools.importer.names import escapes


def check_path(path: str, source: str) -> str:
    """Return `path` if it is plain and below the tree. Raises UserError, which names `source`."""
    parts = path.split("/")
    if path.startswith("/"):
        found = "is absolute"
    elif ".." in parts:
        found = "has '..' in it"
    elif "" in parts or "." in parts or "\0" in path:
        found = "is not a plain path"
    elif is_gits_own(path):
        found = "is git's own"
    else:
        return path
    raise UserError(f"{source}: the path {path!r} {found}. Nothing was taken from it; distrust it")


def is_gits_own(path: str) -> bool:
    """Return whether a path is in a `.git` directory, or is a worktree's `.git` file."""
    return ".git" in path.lower().split("/")


def check_link(path: str, target: str, source: str) -> str:
    """Return a link's target if it stays in the tree. Raises UserError."""
    if escapes(path, target) or "\0" in target:
        raise UserError(
            f"{source}: the link {path!r} leads out of the tree, to {target!r}."
            " Nothing was taken from it; distrust it"
        )
    return target


def check_nesting(files: Iterable[str], source: str) -> None:
    """Refuse a file below another file or link. Raises UserError."""
    known = set(files)
    seen: set[str] = set()
    for path in known:
        parent = posixpath.dirname(path)
        while parent and parent not in seen:
            if parent in known:
                raise UserError(
                    f"{source}: {path!r} lies below {parent!r}, which is no directory."
                    " Nothing was taken from it; distrust it"
                )
            seen.add(parent)
            parent = posixpath.dirname(parent)
