# SPDX-License-Identifier: Apache-2.0
"""Compare the hashes in base.json with upstream's files."""

from __future__ import annotations

from collections.abc import Mapping

from tools.importer.apply import ApplyError
from tools.importer.engine import Base, BaseFile, record_base
from tools.importer.series import Series
from tools.importer.snapshot import Snapshot
from tools.importer.tree import Entry
from tools.importer.verify.difference import Difference, Kind, compare

_WHERE = "base"


def check_base(base: Base, series: Series, snapshot: Snapshot) -> list[Difference]:
    """Return the files whose hash or mode in base.json differs from upstream's.

    base.json must record exactly the files that the series touches. If the patch series does not
    apply to upstream, return a difference that says so.
    """
    try:
        fresh = record_base(series, snapshot)
    except ApplyError as error:
        return [Difference(_WHERE, Kind.DAMAGED, series.root.name, str(error))]
    differences = compare(_WHERE, _entries(fresh.files), _entries(base.files))
    for path in sorted(base.absent ^ fresh.absent):
        kind = Kind.EXTRA if path in base.absent else Kind.MISSING
        differences.append(Difference(_WHERE, kind, path, "among the paths that it calls absent"))
    return differences


def _entries(files: Mapping[str, BaseFile]) -> dict[str, Entry]:
    return {path: Entry(file.mode, file.oid) for path, file in files.items()}
