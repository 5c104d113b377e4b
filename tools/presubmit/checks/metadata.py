# SPDX-License-Identifier: Apache-2.0
"""METADATA files and the bill of materials are current, according to the importer."""

from __future__ import annotations

import collections.abc

from tools.importer.metadata import check_all
from tools.presubmit import finding, tree

_PINS = "third_party/"


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield stale files, or the first pin or METADATA file that cannot be read."""
    if not any(path.startswith(_PINS) for path in files.paths):
        return
    for problem in check_all(files.root):
        path, _, line = problem.path.partition(":")
        yield finding.Finding(
            path=path,
            line=int(line or 1),
            what=problem.what,
            next_step=problem.next_step,
        )
