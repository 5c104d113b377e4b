# SPDX-License-Identifier: Apache-2.0
"""Propose which files of a Python project are its packages, and where they belong."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tools.importer.selection import Selection
from tools.importer.snapshot import Snapshot

# Folders that many projects have next to their packages, and that no program imports.
_NOT_PACKAGES = ("benchmarks", "doc", "docs", "examples", "scripts", "test", "testing", "tests")
_EGG_INFO = re.compile(r"(?:src/)?[^/]+\.egg-info/top_level\.txt")


@dataclass(frozen=True)
class Layout:
    """A proposal for `include` and `move`; without `include`, the whole tree is imported."""

    include: tuple[str, ...] = ()
    move: Mapping[str, str] = field(default_factory=dict)


def layout_of(tree: Snapshot) -> Layout:
    """Return the layout of a source tree. A wheel already contains nothing but packages."""
    paths = tree.paths()
    if any(path.endswith(".dist-info/METADATA") for path in paths):
        return Layout()
    move = {"src/": ""} if any(re.fullmatch(r"src/[^/]+/.+\.py", path) for path in paths) else {}
    moved = {ours for path in paths if (ours := Selection(move=move).ours(path))}
    names = _listed(tree) or _found(moved)
    include = [f"{name}/**" for name in names if any(path.startswith(f"{name}/") for path in moved)]
    include += [f"{name}.py" for name in names if f"{name}.py" in moved]
    return Layout(tuple(sorted(include)), move if include else {})


def _listed(tree: Snapshot) -> list[str]:
    """Return the top-level names that setuptools wrote into an sdist."""
    for path in sorted(tree.paths()):
        if _EGG_INFO.fullmatch(path):
            blob = tree.read(path)
            words = blob.data.decode("utf-8", "replace").split() if blob else []
            return [word for word in words if word.isidentifier() and word not in _NOT_PACKAGES]
    return []


def _found(paths: Collection[str]) -> list[str]:
    """Return the folders that are packages."""
    tops = {path.partition("/")[0] for path in paths if path.count("/") == 1}
    return sorted(top for top in tops if f"{top}/__init__.py" in paths and top not in _NOT_PACKAGES)
