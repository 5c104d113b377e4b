# SPDX-License-Identifier: Apache-2.0
"""Check that METADATA files and the SBOM are what the importer would generate from the pins."""

from __future__ import annotations

import collections.abc

from tools.importer.metadata import check_all
from tools.presubmit import finding, tree

_PINS = "third_party/"


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each stale METADATA file or SBOM, or only one for an unreadable input."""
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
