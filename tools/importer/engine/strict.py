# SPDX-License-Identifier: Apache-2.0
"""Apply a whole patch series to a snapshot without fuzz, using the same code as the build."""

from __future__ import annotations

from collections.abc import Collection

from tools.importer.apply import apply_patch, check_parents
from tools.importer.series import Series
from tools.importer.snapshot import Blob, Snapshot


def apply_to_snapshot(
    series: Series, snapshot: Snapshot, *, absent: Collection[str] = ()
) -> dict[str, Blob | None]:
    """Return the new content of every file that the series touches; None if it is deleted.

    Changes to `absent` paths, which the tree can never contain (a wheel has no C++ sources, for
    example), are skipped. Raises ApplyError if a patch does not apply.
    """
    work: dict[str, Blob | None] = {}
    for patch in series.patches:
        apply_patch(patch, work, snapshot.read, absent=absent)
    check_parents(work, lambda path: snapshot.read(path) is not None)
    return {path: work[path] for path in sorted(work)}
