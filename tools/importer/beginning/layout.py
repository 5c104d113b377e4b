# SPDX-License-Identifier: Apache-2.0
"""Propose which files of a Python project to import, and which folders to move."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tools.importer.selection import Selection
from tools.importer.snapshot import Snapshot

# Top-level folders that are not imported even if they are packages.
_NOT_PACKAGES = ("benchmarks", "doc", "docs", "examples", "scripts", "test", "testing", "tests")
_EGG_INFO = re.compile(r"(?:src/)?[^/]+\.egg-info/top_level\.txt")


@dataclass(frozen=True)
class Layout:
    """Proposed `include` and `move` settings. An empty `include` imports the whole tree."""

    include: tuple[str, ...] = ()
    move: Mapping[str, str] = field(default_factory=dict)


def layout_of(tree: Snapshot) -> Layout:
    """Return the proposed layout. It is empty for a wheel, which contains only packages."""
    paths = tree.paths()
    if any(path.endswith(".dist-info/METADATA") for path in paths):
        return Layout()
    move = {"src/": ""} if any(re.fullmatch(r"src/[^/]+/.+\.py", path) for path in paths) else {}
    moved = {new_path for path in paths if (new_path := Selection(move=move).ours(path))}
    names = _listed(tree) or _found(moved)
    include = [f"{name}/**" for name in names if any(path.startswith(f"{name}/") for path in moved)]
    include += [f"{name}.py" for name in names if f"{name}.py" in moved]
    return Layout(tuple(sorted(include)), move if include else {})


def _listed(tree: Snapshot) -> list[str]:
    """Return the top-level module names that setuptools recorded in an sdist, if any."""
    for path in sorted(tree.paths()):
        if _EGG_INFO.fullmatch(path):
            blob = tree.read(path)
            words = blob.data.decode("utf-8", "replace").split() if blob else []
            return [word for word in words if word.isidentifier() and word not in _NOT_PACKAGES]
    return []


def _found(paths: Collection[str]) -> list[str]:
    """Return the top-level folders that are packages."""
    tops = {path.partition("/")[0] for path in paths if path.count("/") == 1}
    return sorted(top for top in tops if f"{top}/__init__.py" in paths and top not in _NOT_PACKAGES)
