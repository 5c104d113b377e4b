# SPDX-License-Identifier: Apache-2.0
"""Check that every room (a folder for one subject) has a README that describes it."""

from __future__ import annotations

import collections.abc

from tools.presubmit import finding, tree

# In these folders, every direct subfolder is also a room, for one dependency, tool or library.
_BUILDINGS = ("third_party", "tools", "torch_google")


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each room (folder) whose README.md is missing or has only headings."""
    present = set(files.paths)
    for room in sorted(_rooms(files)):
        readme = f"{room}/README.md"
        if readme not in present:
            yield finding.Finding(
                path=readme,
                what=f"the room '{room}' has no README",
                next_step="write what it is for and how to change it",
            )
        elif not any(line and not line.startswith("#") for line in files.lines(readme)):
            yield finding.Finding(
                path=readme,
                what="only headings",
                next_step="write what the room is for and how to change it",
            )


def _rooms(files: tree.Tree) -> set[str]:
    rooms = set()
    for path in files.paths:
        parts = path.split("/")[:-1]
        if not parts or parts[0].startswith("."):
            continue
        rooms.add(parts[0])
        if len(parts) > 1 and parts[0] in _BUILDINGS:
            rooms.add("/".join(parts[:2]))
    return rooms
