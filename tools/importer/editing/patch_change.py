# SPDX-License-Identifier: Apache-2.0
"""Create the patch file for a person's changes of a tree."""

from __future__ import annotations

from collections.abc import Mapping

from tools.importer.editing.release import Release
from tools.importer.editing.renames import find_renames
from tools.importer.editing.series_edit import tree_up_to
from tools.importer.engine import Change, context_of, header_of, render_patch
from tools.importer.errors import UserError
from tools.importer.series import Patch
from tools.importer.session.rewritten import HEADER
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

Files = Mapping[str, Blob | None]


def changed_patch(release: Release, index: int, header: bytes | None, edits: Files) -> bytes:
    """Return patch number `index` with `edits` of its tree applied; `header` replaces its own.

    Without a change, return the bytes of the file. Raises UserError.
    """
    patch = release.series.patches[index]
    old = (release.directory / patch.name).read_bytes()
    old_header = header_of(old)
    header = old_header if header is None else header.rstrip(b"\n")
    if not edits and header == old_header:
        return old
    if not edits:
        return header + old[len(old_header) :]
    refuse_absent(release, patch)
    before = OverlaySnapshot(release.snapshot, tree_up_to(release, index))
    after = {**tree_up_to(release, index + 1), **edits}
    return _rendered(patch.name, header, _changes(before, after, patch), context_of(patch))


def new_patch(release: Release, name: str, count: int, header: bytes, edits: Files) -> bytes:
    """Return a patch that makes `edits`, after the first `count` patches. Raises UserError."""
    before = OverlaySnapshot(release.snapshot, tree_up_to(release, count))
    return _rendered(name, header, _changes(before, edits, None), 3)


def refuse_absent(release: Release, patch: Patch) -> None:
    """Raise UserError if the available upstream tree lacks files of the patch."""
    absent = [path for diff in patch.files for path in diff.paths if path in release.base.absent]
    if absent:
        raise UserError(
            f"{patch.name}: touches {absent[0]}, which the origin of {release.label} "
            f"({release.base.pin.get('kind')}) does not hold. Import {release.label} from an origin "
            "with all files, or edit the patch file by hand"
        )


def refuse_generated(patch: Patch) -> None:
    """Raise UserError for a patch of a rule: the next import would discard the edit."""
    rule = patch.header.get(HEADER)
    if rule is not None:
        raise UserError(
            f"{patch.name}: is made by the rewrite '{rule}'. Change that rule, then "
            "`import.py rewrites --update`"
        )


def _rendered(name: str, header: bytes, changes: list[Change], context: int) -> bytes:
    if not changes:
        raise UserError(
            f"{name}: it would change nothing. Change files of the work tree, or `import.py drop` it"
        )
    return render_patch(header, changes, context=context)


def _changes(before: Snapshot, after: Files, patch: Patch | None) -> list[Change]:
    """Pair the files of both sides: the patch's own renames, then renames detected by content."""
    pairs = {path: (before.read(path), blob) for path, blob in after.items()}
    pairs = {path: (old, new) for path, (old, new) in pairs.items() if old != new}
    removed = {path: old for path, (old, new) in pairs.items() if old and not new}
    added = {path: new for path, (old, new) in pairs.items() if new and not old}
    renames: dict[str, str] = {}
    for diff in patch.files if patch else ():
        if diff.old_path in removed and diff.new_path in added:
            renames[diff.old_path] = diff.new_path
            del removed[diff.old_path], added[diff.new_path]
    renames |= find_renames(removed, added)
    changes = [
        Change(path, renames.get(path, path), old, after[renames[path]] if path in renames else new)
        for path, (old, new) in pairs.items()
        if path not in renames.values()
    ]
    order = _order(patch)
    return sorted(changes, key=lambda change: (order.get(change.path, len(order)), change.path))


def _order(patch: Patch | None) -> dict[str, int]:
    """Return the order of files: as in the patch, then new ones."""
    if patch is None:
        return {}
    return {path: index for index, diff in enumerate(patch.files) for path in diff.paths}
