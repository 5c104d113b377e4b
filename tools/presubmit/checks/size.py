# SPDX-License-Identifier: Apache-2.0
"""Check that files are short enough to read in one sitting."""

from __future__ import annotations

import collections.abc

from tools.presubmit import finding, tree

MAX_LINES = 600
MAX_BYTES = 1_000_000
_UNLIMITED = (
    ".patch",
    ".lock",
    ".txt",
    ".json",
    "/TABLE.md",
    "/FIGURES.md",
)  # data and generated files


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each source of more than 600 lines and each file of more than 1 MB."""
    for path in files.paths:
        size = (files.root / path).stat().st_size
        if size > MAX_BYTES:
            yield finding.Finding(
                path=path,
                what=f"{size} bytes is more than {MAX_BYTES}",
                next_step="fetch it by hash instead of committing it",
            )
        lines = len(files.lines(path))
        if lines > MAX_LINES and not path.endswith(_UNLIMITED):
            yield finding.Finding(
                path=path,
                line=MAX_LINES + 1,
                what=f"{lines} lines is more than {MAX_LINES}",
                next_step="split it by subject",
            )
