# SPDX-License-Identifier: Apache-2.0
"""Remove landed patches from upstream's tree, so that a later revert of one can be detected.

If upstream contains a patch, merging the patch changes nothing, but merging its reverse produces
upstream's tree without the patch. The landed patch is then stored as the diff from that tree to
upstream's. Merging this diff into a later release changes nothing while upstream keeps the change.
Once upstream has reverted the change, the diff applies again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tools.importer.engine.base import Base
from tools.importer.engine.doubt import doubtful_line
from tools.importer.engine.history import History, Step
from tools.importer.engine.merge import Merge, merge_texts
from tools.importer.engine.outcome import PatchResult
from tools.importer.engine.render import Change, context_of, header_of, render_patch
from tools.importer.engine.text import Text
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot


@dataclass(frozen=True)
class Landing:
    """A landed patch. `data` is the content of its patch file.

    `steps` pairs each changed path in upstream's tree with the change to that file, or with None if
    the base of the series lacks the file.
    """

    patch: Patch
    data: bytes
    steps: tuple[tuple[str, Step | None], ...]


@dataclass(frozen=True)
class Landings:
    """Landed patches, rewritten to apply to `tree`, which is upstream's tree without them.

    `files` maps names to patch files, in order. `lost` names the patches that cannot be reverted.
    """

    tree: Snapshot
    files: Mapping[str, bytes]
    lost: tuple[str, ...]


def landings(
    series: Series,
    base: Base,
    new: Snapshot,
    results: Sequence[PatchResult],
    names: Collection[str],
) -> list[Landing]:
    """Return the landed patches with these `names`. `results` contains their outcomes on `new`."""
    history = History(series, base, new, None)
    out: list[Landing] = []
    for patch, result in zip(series.patches, results, strict=False):
        if patch.name in names:
            paths = [file.new_path for file in result.files] or [diff.path for diff in patch.files]
            data = (series.root / patch.name).read_bytes()
            steps = tuple(zip(paths, history.steps(patch), strict=True))
            out.append(Landing(patch, data, steps))
        history.advance(patch)
    return out


def take_out(items: Sequence[Landing], new: Snapshot) -> Landings:
    """Revert the landed patches in `items`, last patch first, on top of the tree `new`."""
    without: dict[str, Blob | None] = {}
    files: dict[str, bytes] = {}
    lost: list[str] = []
    for item in reversed(items):
        tree = OverlaySnapshot(new, without)
        before = _reversed(item, tree)
        if before is None:
            lost.append(item.patch.name)
            continue
        changes = [Change(path, path, blob, tree.read(path)) for path, blob in before.items()]
        header = header_of(item.data)
        files[item.patch.name] = render_patch(header, changes, context=context_of(item.patch))
        without |= before
    return Landings(
        OverlaySnapshot(new, without), dict(reversed(files.items())), tuple(reversed(lost))
    )


def is_reverted(item: Landing, new: Snapshot) -> bool:
    """Return whether upstream reverted the whole patch, so that `new` contains no part of it."""
    for path, step in item.steps:
        blob = new.read(path)
        if step is None or step.after is None or not _is_text(step):
            return False
        if step.before is None:
            if blob is not None:
                return False
            continue
        if blob is None:
            return False
        merge = _reverse_merge(step, blob)
        if merge.conflicts or merge.edits or _is_doubtful(step, blob, merge):
            return False
    return True


def _reversed(item: Landing, tree: Snapshot) -> dict[str, Blob | None] | None:
    """Return the files that the patch touches, with it reverted; None if it cannot be reverted."""
    out: dict[str, Blob | None] = {}
    for path, step in item.steps:
        blob = out[path] if path in out else tree.read(path)
        if step is None or step.after is None or blob is None or not _is_text(step):
            return None
        if step.before is None:
            if not step.after.same_as(blob):
                return None
            out[path] = None
            continue
        merge = _reverse_merge(step, blob)
        if merge.conflicts or not merge.edits or _is_doubtful(step, blob, merge):
            return None
        known = {*step.words.values(), *(Text.of(blob.data).lines or ())}
        if not known.issuperset(merge.lines):
            return None  # of some line in the old tree, only the hash is known
        out[path] = Blob(b"".join(merge.lines), blob.mode)
    return out


def _is_text(step: Step) -> bool:
    """Return whether a step only changes lines: no rename, mode change, symlink or binary file."""
    diff = step.diff
    same_mode = step.before is None or step.after is None or step.before.mode == step.after.mode
    return diff.binary is None and len(set(diff.paths)) == 1 and same_mode


def _reverse_merge(step: Step, blob: Blob) -> Merge:
    assert step.before is not None
    assert step.after is not None
    ours = Text.of(blob.data)
    return merge_texts(step.after.text, ours, step.before.text, words=step.words)


def _is_doubtful(step: Step, blob: Blob, merge: Merge) -> bool:
    assert step.before is not None
    assert step.after is not None
    ours = Text.of(blob.data)
    return doubtful_line(step.after.text, ours, step.before.text, merge) is not None
