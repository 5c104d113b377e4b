# SPDX-License-Identifier: Apache-2.0
"""The outcome of rebasing a patch onto a different upstream tree."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tools.importer.engine.merge import Region
from tools.importer.series import Patch
from tools.importer.snapshot import Blob


class Outcome(enum.Enum):
    """The outcomes, from best to worst. A patch's outcome is the worst one among its files."""

    CLEAN = "clean"  # every hunk applies at its recorded lines
    OFFSET = "offset"  # the same lines, elsewhere in the file
    THREE_WAY = "3-way"  # the lines around it changed, but the merge is unambiguous
    RESOLVED = "resolved"  # the user resolved it
    LANDED = "landed"  # upstream has the change: the merge changes nothing
    NOT_APPLICABLE = "not applicable"  # the origin never has these files; the patch is kept
    SKIPPED = "skipped"  # the user dropped it from this import
    SUSPECTED = "suspected"  # upstream seems to have the change, but modified
    AMBIGUOUS = "ambiguous"  # the merge has more than one possible result
    FILE_GONE = "file gone"  # upstream deleted the file, or moved it and the new path is unknown
    CONFLICT = "conflict"

    @property
    def stops(self) -> bool:
        """Return whether the import must stop for manual resolution."""
        return self in (self.SUSPECTED, self.AMBIGUOUS, self.FILE_GONE, self.CONFLICT)

    @property
    def drops(self) -> bool:
        """Return whether the patch is removed from the series."""
        return self in (self.LANDED, self.SKIPPED)


@dataclass(frozen=True)
class Dispute:
    """The conflicts of a file. `spans` are their line ranges in the text with conflict markers."""

    key: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Settlement:
    """The resolution of all conflicts of a patch: replacement text per conflict, grouped by file.

    `source` names the earlier import that stored it; empty if the user has just resolved it.
    """

    key: str
    paths: tuple[str, ...]
    answers: tuple[tuple[bytes, ...], ...]
    source: str = ""


@dataclass(frozen=True)
class FileResult:
    """The result for one file of one patch.

    `path` is the old path of the file, and `new_path` its current one; they differ if upstream
    moved it. `before` and `after` are the new tree's file without and with the patch; None means
    that the file is absent. If the file needs manual resolution, `after` contains conflict markers
    with base, ours (upstream) and theirs (the patch). `note` describes the result. `inner` is the
    diff from the patch's version to upstream's. For a 3-way merge, it is the diff from the old
    lines in the patch's hunks to upstream's lines. `conflicts` are the regions between the markers.
    """

    path: str
    new_path: str
    outcome: Outcome
    before: Blob | None
    after: Blob | None
    note: str = ""
    inner: str = ""
    conflicts: tuple[Region, ...] = ()
    dispute: Dispute | None = None


@dataclass(frozen=True)
class PatchResult:
    """The result for one patch. `data` is its new patch file; None if it is dropped or unresolved.

    `settlement` is the resolution of its conflicts, if it was reused or can be reused later.
    """

    patch: Patch
    outcome: Outcome
    files: tuple[FileResult, ...]
    data: bytes | None
    note: str = ""
    settlement: Settlement | None = None


@dataclass(frozen=True)
class Skip:
    """The user's decision to omit the patch from this import."""


@dataclass(frozen=True)
class Resolved:
    """The files as resolved by the user, keyed by new path; None deletes a file."""

    files: Mapping[str, Blob | None]


Decision = Skip | Resolved
