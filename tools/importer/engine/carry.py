# SPDX-License-Identifier: Apache-2.0
"""Rebase a patch series from its recorded base onto a different upstream tree, file by file.

Each patch is rebased by a three-way merge. For patch i, base is the old file with patches 0 to i -
1 applied, theirs is the same file with patch i also applied, and ours is the new file with the
rebased patches 0 to i - 1 applied. A patch has landed if its merge changes nothing. Patches that
change the same lines are also merged as a group, because upstream may have merged all of them.

If the new file equals the old one byte for byte, the patch is applied unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tools.importer.apply import ApplyError, apply_diff, split_lines
from tools.importer.engine.base import Base
from tools.importer.engine.file_merge import merge_step
from tools.importer.engine.history import History, Step
from tools.importer.engine.merge import Labels
from tools.importer.engine.moved import Found, find_moved, near
from tools.importer.engine.outcome import (
    Decision,
    FileResult,
    Outcome,
    PatchResult,
    Resolved,
    Settlement,
    Skip,
)
from tools.importer.engine.render import Change, context_of, header_of, render_patch
from tools.importer.engine.settlement import Settlements, learn, recall
from tools.importer.engine.text import Text
from tools.importer.engine.whereabouts import whereabouts
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, Snapshot
from tools.importer.unified import FileDiff, Hunk

_ORDER = list(Outcome)


@dataclass(frozen=True)
class Carry:
    """The outcome of each patch, and the new tree's files that the patches touch.

    `results` ends at the first patch that needs manual resolution, unless `keep_going` was set.
    """

    series: Series
    results: tuple[PatchResult, ...]
    files: Mapping[str, Blob | None]

    @property
    def stopped(self) -> PatchResult | None:
        last = self.results[-1] if self.results else None
        return last if last and last.outcome.stops else None

    def series_files(self) -> dict[str, bytes]:
        """Return the new `series` file and the rebased patches, keyed by file name.

        Raises ValueError if a patch still needs manual resolution.
        """
        if any(result.outcome.stops for result in self.results):
            raise ValueError("a stopped carry has no series")
        bodies = {
            result.patch.name: result.data for result in self.results if result.data is not None
        }
        gone = {result.patch.name for result in self.results} - set(bodies)
        files = {"series": _without((self.series.root / "series").read_bytes(), gone)}
        for patch in self.series.patches:
            if patch.name not in gone:
                data = bodies.get(patch.name)
                files[patch.name] = (
                    data if data is not None else (self.series.root / patch.name).read_bytes()
                )
        return files


def carry(
    series: Series,
    base: Base,
    new: Snapshot,
    *,
    decisions: Mapping[str, Decision] | None = None,
    first: int = 0,
    keep_going: bool = False,
    old: Snapshot | None = None,
    settlements: Settlements | None = None,
) -> Carry:
    """Rebase `series` from `base` onto `new`.

    `decisions` contains the user's resolutions and skips, keyed by patch name. `new` already
    contains the patches before index `first`. With `keep_going`, a patch that needs manual
    resolution is skipped, and later patches are merged without it. `old` is the full tree of the
    base, if available; it only supplies text to show in conflicts. `settlements` contains stored
    conflict resolutions, keyed by conflict hash. Raises UserError if the series does not apply to
    its recorded base.
    """
    work = _Work(series, base, new, decisions or {}, old, settlements or {})
    for patch in series.patches[:first]:
        work.history.advance(patch)
    results: list[PatchResult] = []
    for index in range(first, len(series.patches)):
        result = work.step(index)
        results.append(result)
        if result.outcome.stops and not keep_going:
            break
    return Carry(series, tuple(results), dict(work.ours))


@dataclass
class _Work:
    series: Series
    base: Base
    new: Snapshot
    decisions: Mapping[str, Decision]
    old: Snapshot | None
    settlements: Settlements
    ours: dict[str, Blob | None] = field(default_factory=dict)
    landed: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = History(self.series, self.base, self.new, self.old)

    def step(self, index: int) -> PatchResult:
        patch = self.series.patches[index]
        decision = self.decisions.get(patch.name)
        if isinstance(decision, Skip):
            self.history.advance(patch)
            return PatchResult(patch, Outcome.SKIPPED, (), None, "dropped by decision")
        if patch.name in self.landed:
            self.history.advance(patch)
            return PatchResult(
                patch, Outcome.LANDED, (), None, "upstream has it, with its neighbors"
            )
        files = self.merged(patch)
        outcome, note = _together(files)
        settlement: Settlement | None = None
        if isinstance(decision, Resolved):
            settlement = learn(files, decision)
            files, outcome = self.resolved(files, decision)
        elif outcome.stops and self.landed_together(index):
            outcome = Outcome.LANDED
            files = tuple(replace(file, outcome=outcome, after=file.before) for file in files)
        elif outcome.stops and (remembered := recall(files, self.settlements)):
            settlement, decision = remembered
            files, outcome = self.resolved(files, decision)
            note = f"as settled before: {settlement.source}"
        self.history.advance(patch)
        if not outcome.stops:
            self.take(files)
        return PatchResult(
            patch,
            outcome,
            files,
            None if outcome.stops or outcome.drops else self.render(patch, outcome, files),
            note
            or next((file.note for file in files if file.outcome is outcome and file.note), ""),
            settlement,
        )

    def take(self, files: Sequence[FileResult]) -> None:
        for file in files:
            if file.outcome is Outcome.NOT_APPLICABLE:
                continue
            if file.new_path != file.path:
                self.ours[file.path] = None
            self.ours[file.new_path] = file.after

    def merged(self, patch: Patch) -> tuple[FileResult, ...]:
        """Merge the patch diff by diff, because it may delete a file and then create it again."""
        before, files = dict(self.ours), list[FileResult]()
        for diff, step in zip(patch.files, self.history.steps(patch), strict=True):
            files.append(self.file(patch, diff, step))
            self.take(files[-1:])
        self.ours = before
        return tuple(
            self.with_whereabouts(file, diff.hunks, files)
            for file, diff in zip(files, patch.files, strict=True)
        )

    def with_whereabouts(
        self, file: FileResult, hunks: Sequence[Hunk], files: Sequence[FileResult]
    ) -> FileResult:
        """Add a note that says where upstream moved the lines of a file with conflicts."""
        if file.outcome not in (Outcome.CONFLICT, Outcome.SUSPECTED, Outcome.FILE_GONE):
            return file
        others = {
            other.new_path: Text.of(other.before.data)
            for other in files
            if other.before is not None and other.new_path != file.new_path
        }

        def elsewhere() -> Iterator[tuple[str, Text]]:
            for path, text in near(file.path, self.base, self.new):
                if path not in others and path != file.new_path:
                    yield path, text

        ours = None if file.before is None else Text.of(file.before.data)
        hint = whereabouts(hunks, file.conflicts, ours, others, elsewhere)
        return replace(file, note="; ".join(filter(None, (file.note, hint))))

    def file(self, patch: Patch, diff: FileDiff, step: Step | None) -> FileResult:
        """Merge the patch's change to one file."""
        source = diff.old_path or diff.path
        where = self.moved.get(source, source)
        if diff.old_path is not None and where not in self.ours and not self.new.carries(where):
            return FileResult(
                source, where, Outcome.NOT_APPLICABLE, None, None, "this origin has no such files"
            )
        if step is None:
            return self.unrecorded(patch, diff, where)
        before, note = self.read(where), ""
        if before is None and diff.new_path is None:
            match = self.moved_to(source)
            if match.path is not None or match.note:
                return FileResult(
                    source,
                    source,
                    Outcome.SUSPECTED,
                    None,
                    None,
                    f"the patch deletes it; {match.note}",
                )
        if before is None and diff.old_path is not None and diff.new_path is not None:
            where, before, note = self.look_for(source, diff.new_path)
            if before is None:
                return FileResult(
                    source,
                    source,
                    Outcome.FILE_GONE,
                    None,
                    None,
                    "; ".join(filter(None, ("upstream has no such file now", note))),
                )
        renames = diff.old_path is not None and diff.new_path not in (None, diff.old_path)
        target = str(diff.new_path) if renames else where
        if renames and where != target and self.read(target) is not None:
            return FileResult(
                where, target, Outcome.CONFLICT, before, before, f"'{target}' exists upstream"
            )
        merged = merge_step(step, before, self.labels(patch))
        outcome = merged.outcome
        if outcome is Outcome.LANDED and where != target:
            outcome = Outcome.CLEAN  # the changed lines landed, but the patch's rename did not
        if outcome is Outcome.CLEAN and diff.old_path not in (None, where):
            outcome = Outcome.OFFSET  # upstream renamed the file, but the lines are the same
        return FileResult(
            where,
            target,
            outcome,
            before,
            merged.after,
            "; ".join(filter(None, (note, merged.note))),
            merged.inner,
            merged.conflicts,
            merged.dispute,
        )

    def labels(self, patch: Patch) -> Labels:
        return Labels(
            base=self.base.label,
            ours=f"upstream {self.new.label}",
            theirs=f"{patch.name}: {patch.header['Subject']}",
        )

    def read(self, path: str) -> Blob | None:
        return self.ours[path] if path in self.ours else self.new.read(path)

    def look_for(self, path: str, new_path: str) -> tuple[str, Blob | None, str]:
        """Return the path to which upstream moved a file, the file there, and a note.

        The path to which the patch renames the file is tried first. If no file matches, return
        `path`, None and a note.
        """
        if new_path != path and self.read(new_path) is not None:
            return new_path, self.read(new_path), "upstream has it under the patch's new name"
        match = self.moved_to(path)
        if match.path is None:
            return path, None, match.note
        self.moved[path] = match.path
        return match.path, self.read(match.path), match.note

    def moved_to(self, path: str) -> Found:
        file = self.base.files.get(path)
        return (
            Found(None, "") if file is None else find_moved(path, file.marks, self.base, self.new)
        )

    def unrecorded(self, patch: Patch, diff: FileDiff, where: str) -> FileResult:
        """Apply a diff without fuzz, because a file that the base lacks cannot be merged."""
        before = self.read(where)
        try:
            after = apply_diff(patch.name, diff, {path: self.read(path) for path in diff.paths})
        except ApplyError as error:
            return FileResult(
                where, diff.path, Outcome.AMBIGUOUS, before, before, f"its base is unknown: {error}"
            )
        return FileResult(where, diff.path, Outcome.CLEAN, before, after[diff.path])

    def resolved(
        self, files: Sequence[FileResult], decision: Resolved
    ) -> tuple[tuple[FileResult, ...], Outcome]:
        settled: list[FileResult] = []
        for file in files:
            if file.new_path in decision.files:
                after = decision.files[file.new_path]
                file = replace(file, outcome=Outcome.RESOLVED, after=after)
            settled.append(file)
        for path, blob in decision.files.items():
            if path not in {file.new_path for file in files}:
                settled.append(FileResult(path, path, Outcome.RESOLVED, self.read(path), blob))
        paths = [file.new_path for file in files]
        if paths == sorted(paths):
            # Sort added files by path, as in a new patch, so that identical changes produce
            # identical bytes.
            settled.sort(key=lambda file: file.new_path)
        if all(file.after == file.before for file in settled):
            return tuple(settled), Outcome.LANDED
        stops = [file.outcome for file in settled if file.outcome.stops]
        return tuple(settled), stops[0] if stops else Outcome.RESOLVED

    def landed_together(self, index: int) -> bool:
        """Return whether upstream contains this patch and all later patches to the same lines."""
        group = self.history.neighbors(index)
        paths = {path for patch in group for diff in patch.files for path in diff.paths}
        if not all(path in self.ours or self.new.carries(path) for path in paths):
            return False  # this origin lacks a file, so it cannot show whether the group landed
        while len(group) > 1:
            if self.history.group_landed(group, self.read, self.moved):
                self.landed |= {patch.name for patch in group}
                return True
            group = group[:-1]
        return False

    def render(self, patch: Patch, outcome: Outcome, files: Sequence[FileResult]) -> bytes:
        original = (self.series.root / patch.name).read_bytes()
        if all(file.outcome in (Outcome.CLEAN, Outcome.NOT_APPLICABLE) for file in files):
            return original
        lines = split_lines(original)
        changes: list[Change | bytes] = []
        for index, file in enumerate(files):
            if file.outcome is Outcome.NOT_APPLICABLE:
                start, stop = patch.files[index].span
                changes.append(b"".join(lines[start:stop]))
            else:
                path = file.path if file.before is not None else file.new_path
                changes.append(Change(path, file.new_path, file.before, file.after))
        return render_patch(header_of(original), changes, context=context_of(patch))


def _together(files: Sequence[FileResult]) -> tuple[Outcome, str]:
    """Combine the outcomes of a patch's files into one, with a note if the patch partly landed."""
    here = [file.outcome for file in files if file.outcome is not Outcome.NOT_APPLICABLE]
    worst = max(here, key=_ORDER.index, default=Outcome.NOT_APPLICABLE)
    if worst is not Outcome.LANDED:
        return worst, ""
    needed = [outcome for outcome in here if outcome is not Outcome.LANDED]
    if needed:
        return max([*needed, Outcome.THREE_WAY], key=_ORDER.index), "a part of it landed"
    if len(here) < len(files):
        return Outcome.NOT_APPLICABLE, "it landed in this origin's files; the other files are kept"
    return worst, ""


def _without(series: bytes, gone: set[str]) -> bytes:
    if not gone:
        return series
    lines = [
        line
        for line in series.decode("utf-8").splitlines(keepends=True)
        if line.split("#", 1)[0].strip() not in gone
    ]
    return re.sub(r"\n{3,}", "\n\n", "".join(lines)).encode()
