# SPDX-License-Identifier: Apache-2.0
"""Write local edits to a vendored tree as a patch, whose header the user must fill in."""

from __future__ import annotations

from collections.abc import Sequence

from tools.importer.engine import Change, render_patch
from tools.importer.git_repo.vendor import Edit

_HEADER = """Subject: {subject}
Owner:
Reason:
Upstream:
Extension-point-considered:
Test:"""


def fixup_patch(edits: Sequence[Edit], destination: str) -> bytes:
    """Return a patch with an empty header, which the series check rejects until it is filled in.

    The patch applies after the last patch of the vendored series.
    """
    header = _HEADER.format(subject=f"Local edits of {destination}").encode(
        "utf-8", "surrogateescape"
    )
    changes = [Change(edit.path, edit.path, edit.recorded, edit.current) for edit in edits]
    return render_patch(header, changes)
