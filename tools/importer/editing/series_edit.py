# SPDX-License-Identifier: Apache-2.0
"""Change a patch series: replace, insert or drop one patch, and rebase the patches after it.

Later patches are rebased by three-way merges, as in an import, from the old series' tree onto
upstream's tree with the changed patch applied. So a later patch is dropped if the new tree already
contains its change, and needs manual resolution if it conflicts.
"""

from __future__ import annotations

import base64
import difflib
import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tools.importer.editing.release import Release
from tools.importer.editing.staged import staged
from tools.importer.engine import Carry, Decision, Settlements, apply_to_snapshot, carry
from tools.importer.errors import UserError
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

INDEX = "series"


class Kind(enum.Enum):
    REPLACE = "replace"
    INSERT = "insert"
    DROP = "drop"


@dataclass(frozen=True)
class SeriesEdit:
    """An edit to the patch series of release `label`. `digest` is the unedited series' hash.

    `data` is the new patch file. An inserted patch follows the patch `after`, or comes first if
    `after` is None.
    """

    kind: Kind
    label: str
    digest: str
    name: str
    data: bytes | None = None
    after: str | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "kind": self.kind.value,
            "label": self.label,
            "digest": self.digest,
            "name": self.name,
            "after": self.after,
            "data": None if self.data is None else base64.b64encode(self.data).decode("ascii"),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, object]) -> SeriesEdit:
        data, after = row["data"], row["after"]
        return cls(
            Kind(row["kind"]),
            str(row["label"]),
            str(row["digest"]),
            str(row["name"]),
            None if data is None else base64.b64decode(str(data)),
            None if after is None else str(after),
        )


@dataclass(frozen=True)
class Rebased:
    """The rebased patches, and the files of the new series.

    `files` is None if a patch needs manual resolution.
    """

    carried: Carry
    files: Mapping[str, bytes] | None


def rebase(
    release: Release,
    edit: SeriesEdit,
    decisions: Mapping[str, Decision] | None = None,
    settlements: Settlements | None = None,
) -> Rebased:
    """Apply `edit` in memory and rebase the later patches.

    Raises UserError if the patch does not apply or has an invalid header.
    """
    if release.series.digest != edit.digest:
        raise UserError(
            f"{release.directory}: the series changed since {edit.name} was begun. "
            "Keep your files, then `import.py abort` and begin again"
        )
    first, _ = _position(release.series, edit)
    tree = tree_of(release, edit)
    carried = carry(
        release.series,
        release.base,
        tree,
        decisions=decisions or {},
        first=first,
        old=release.snapshot,
        settlements=settlements,
    )
    return Rebased(carried, None if carried.stopped else _files(carried, edit))


def tree_of(release: Release, edit: SeriesEdit) -> Snapshot:
    """Return upstream's tree with the patches up to and including the edited one applied.

    If the edit drops a patch, only the patches that precede it are applied.
    """
    _, before = _position(release.series, edit)
    tree = OverlaySnapshot(release.snapshot, _applied(release, before, edit))
    tree.label = f"{release.label} with {edit.name}"  # conflict markers show this label
    if edit.kind is Kind.DROP:
        tree.label = f"{release.label} without {edit.name}"
    return tree


def position_of(series: Series, name: str) -> int:
    """Return the index of a patch, given its name with or without `.patch`.

    Raises UserError if the series has no such patch.
    """
    patch_name = name if name.endswith(".patch") else f"{name}.patch"
    names = [patch.name for patch in series.patches]
    if patch_name not in names:
        raise UserError(f"{series.root}: no patch '{patch_name}'.{_hint(patch_name, names)}")
    return names.index(patch_name)


def tree_up_to(release: Release, count: int) -> dict[str, Blob | None]:
    """Return the files that the first `count` patches touch, with those patches applied."""
    return _apply(release, release.series.patches[:count])


def _position(series: Series, edit: SeriesEdit) -> tuple[int, int]:
    """Return the index of the first patch to rebase, and how many patches precede the edited one.

    An inserted patch counts as edited.
    """
    if edit.kind is Kind.INSERT:
        index = 0 if edit.after is None else position_of(series, edit.after) + 1
        return index, index
    index = position_of(series, edit.name)
    return index + 1, index


def _applied(release: Release, before: int, edit: SeriesEdit) -> dict[str, Blob | None]:
    earlier = release.series.patches[:before]
    if edit.data is None:
        # Omit files that only the dropped patch touches, so that upstream's versions are used.
        return _apply(release, earlier)
    files = {INDEX: edit.name.encode(), edit.name: edit.data}
    with staged(files, release.directory) as alone:
        return _apply(release, (*earlier, *alone.patches))


def _apply(release: Release, patches: tuple[Patch, ...]) -> dict[str, Blob | None]:
    part = Series(release.series.root, patches)
    return apply_to_snapshot(part, release.snapshot, absent=release.base.absent)


def _files(carried: Carry, edit: SeriesEdit) -> dict[str, bytes]:
    files = carried.series_files()
    if edit.kind is Kind.DROP:
        files[INDEX] = _without_line(files[INDEX], edit.name)
        del files[edit.name]
        return files
    if edit.kind is Kind.INSERT:
        files[INDEX] = _with_line(files[INDEX], edit.name, edit.after)
    assert edit.data is not None
    files[edit.name] = edit.data
    return files


def _with_line(index: bytes, name: str, after: str | None) -> bytes:
    lines = index.decode().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    listed = [number for number, line in enumerate(lines) if _name(line)]
    if after is not None:
        line_index = next(number for number in listed if _name(lines[number]) == after) + 1
    else:
        line_index = listed[0] if listed else len(lines)
    return "".join([*lines[:line_index], f"{name}\n", *lines[line_index:]]).encode()


def _without_line(index: bytes, name: str) -> bytes:
    lines = index.decode().splitlines(keepends=True)
    return "".join(line for line in lines if _name(line) != name).encode()


def _name(line: str) -> str:
    return line.split("#", 1)[0].strip()


def _hint(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else " Its `series` lists those there are"
