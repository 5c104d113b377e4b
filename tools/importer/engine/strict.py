# SPDX-License-Identifier: Apache-2.0
"""A whole series on a snapshot, strictly: the same rules, and code, as the build's own apply."""

from __future__ import annotations

from collections.abc import Collection

from tools.importer.apply import apply_patch, check_parents
from tools.importer.series import Series
from tools.importer.snapshot import Blob, Snapshot


def apply_to_snapshot(
    series: Series, snapshot: Snapshot, *, absent: Collection[str] = ()
) -> dict[str, Blob | None]:
    """Return every file that the series touches as it is afterwards; None where it is deleted.

    Changes of `absent` paths, which the origin does not hold, are passed over. Raises ApplyError.
    """
    work: dict[str, Blob | None] = {}
    for patch in series.patches:
        apply_patch(patch, work, snapshot.read, absent=absent)
    check_parents(work, lambda path: snapshot.read(path) is not None)
    return {path: work[path] for path in sorted(work)}
