# SPDX-License-Identifier: Apache-2.0
"""Check that a file is executable if and only if it starts with `#!`."""

from __future__ import annotations

import collections.abc
import os

from tools.presubmit import finding, tree


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each file whose executable bit does not match its first line."""
    for path in files.paths:
        executable = os.access(files.root / path, os.X_OK)
        script = files.text(path).startswith("#!")
        if executable and not script:
            yield finding.Finding(
                path=path,
                what="executable, but does not start with '#!'",
                next_step=f"run: chmod -x {path}",
            )
        elif script and not executable:
            yield finding.Finding(
                path=path,
                what="starts with '#!', but is not executable",
                next_step=f"run: chmod +x {path}",
            )
