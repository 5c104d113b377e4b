# SPDX-License-Identifier: Apache-2.0
"""What became of a patch when it was carried to another upstream tree."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tools.importer.engine.merge import Region
from tools.importer.series import Patch
from tools.importer.snapshot import Blob


class Outcome(enum.Enum):
    """Ordered from the best news to the worst: a patch has the worst outcome of its files."""

    CLEAN = "clean"  # every hunk at its very lines
    OFFSET = "offset"  # the same lines, elsewhere in the file
    THREE_WAY = "3-way"  # lines around it changed, and the merge is still without doubt
    RESOLVED = "resolved"  # a person settled it
    LANDED = "landed"  # upstream has it: the merge changes nothing
    NOT_APPLICABLE = "not applicable"  # the origin does not hold such files; the patch is kept
    SKIPPED = "skipped"  # a person dropped it from this import
    SUSPECTED = "suspected"  # upstream seems to have it with a tweak
    AMBIGUOUS = "ambiguous"  # the merge could mean two things
    FILE_GONE = "file gone"  # upstream deleted or moved the file out of sight
    CONFLICT = "conflict"

    @property
    def stops(self) -> bool:
        """Whether a person has to decide before the import can go on."""
        return self in (self.SUSPECTED, self.AMBIGUOUS, self.FILE_GONE, self.CONFLICT)

    @property
    def drops(self) -> bool:
        """Whether the patch leaves the series."""
        return self in (self.LANDED, self.SKIPPED)


@dataclass(frozen=True)
class FileResult:
    """One file of one patch.

    `path` is where the file was, `new_path` where it is now (upstream may have moved it). `before` and
    `after` are the new tree's file without and with the patch; None where there is none. After a
    stop, `after` holds the file with conflict markers: base, ours (upstream's new) and theirs (the
    patch's). `note` says in a few words what was found, `inner` how upstream's version differs from the
    patch's, as a diff; `conflicts` are the stretches between the markers.
    """

    path: str
    new_path: str
    outcome: Outcome
    before: Blob | None
    after: Blob | None
    note: str = ""
    inner: str = ""
    conflicts: tuple[Region, ...] = ()


@dataclass(frozen=True)
class PatchResult:
    """One patch. `data` is the patch file for the new tree; None where it left the series or stopped."""

    patch: Patch
    outcome: Outcome
    files: tuple[FileResult, ...]
    data: bytes | None
    note: str = ""


@dataclass(frozen=True)
class Skip:
    """Drop the patch from this import."""


@dataclass(frozen=True)
class Resolved:
    """The files of the patch as a person wants them, by path in the new tree; None deletes one."""

    files: Mapping[str, Blob | None]


Decision = Skip | Resolved
