# SPDX-License-Identifier: Apache-2.0
"""Export patches: as branches in a checkout of upstream, or as mbox files."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.importer.engine import Base, PatchResult, carry, merge_blobs
from tools.importer.engine import Outcome as CarryOutcome
from tools.importer.errors import UserError
from tools.importer.git_repo.checkout import names
from tools.importer.git_repo.commit_snapshot import CommitSnapshot
from tools.importer.git_repo.exclusive import exclusive
from tools.importer.git_repo.letter import Letter, letter_of, mbox
from tools.importer.git_repo.plain_file import write_file
from tools.importer.git_repo.repository import Person, Repository, TreeEntry
from tools.importer.selection import SelectedSnapshot, Selection
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob

# For each exported branch, a ref under this prefix points at its commit. Only exports update these
# refs.
_RECORD = "refs/importer/exported/"

_MAIN = ("refs/heads/main", "refs/remotes/origin/main", "refs/heads/master", "HEAD")


class State(enum.Enum):
    NEW = "new"
    REPLACED = "replaced"  # overwrote an earlier export's branch or, with --force, any branch
    UNCHANGED = "unchanged"
    LANDED = "landed"  # upstream already has the patch
    REFUSED = "refused"


@dataclass(frozen=True)
class Exported:
    """An exported patch: its branch's `ref` and `commit`, or the written `file`."""

    patch: str
    title: str
    state: State
    note: str = ""
    ref: str | None = None
    commit: str | None = None
    file: Path | None = None


@dataclass(frozen=True)
class Offer:
    """Patches of `series` to export. `base` is the recorded tree that the series applies to."""

    project: str
    series: Series
    base: Base
    onto: str | None = None  # the commits' parent; None: the base's commit, or upstream's main
    force: bool = False
    dry_run: bool = False
    only: Collection[str] = field(default=())  # names of the patches to export; empty means all
    selection: Selection = field(default_factory=Selection)  # maps upstream's paths to ours

    @property
    def patches(self) -> list[Patch]:
        return [patch for patch in self.series.patches if not self.only or patch.name in self.only]


def export_branches(
    repository: Repository, offer: Offer, *, person: Person, when: datetime.datetime, bodies: Path
) -> list[Exported]:
    """Create a branch `<project>/<subject>` for each patch whose Reason header is `upstream`.

    Pull request descriptions are written to `bodies`. A patch that cannot be exported does not stop
    the others.
    """
    chosen = {patch.name for patch in offer.patches if patch.header["Reason"] == "upstream"}
    if not chosen:
        return []
    with exclusive(repository):
        start = _start(repository, offer)
        upstream = CommitSnapshot(repository, start)
        tree = SelectedSnapshot(
            upstream,
            offer.selection,
            label=upstream.label,
            natives=False,
            where=str(repository.path),
        )
        work = _Branches(repository, offer, tree, start, person, when)
        carried = carry(offer.series, offer.base, work.start, keep_going=True)
        return [
            work.export(result, bodies) for result in carried.results if result.patch.name in chosen
        ]


def export_files(offer: Offer, directory: Path, patches: Sequence[Patch]) -> list[Exported]:
    """Write each patch in mbox format to `<subject>.patch`, and the list of patches to `series`."""
    done: list[Exported] = []
    for patch in patches:
        data = mbox(_letter(offer.series, patch), with_headers=patch.header["Reason"] != "upstream")
        file = directory / patch.name
        state = _write(file, data, offer.dry_run)
        done.append(Exported(patch.name, patch.header["Subject"], state, file=file))
    if done:
        order = "".join(f"{each.patch}\n" for each in done)
        _write(directory / "series", order.encode(), offer.dry_run)
    return done


class _Branches:
    def __init__(
        self,
        repository: Repository,
        offer: Offer,
        start: SelectedSnapshot,
        commit: str,
        person: Person,
        when: datetime.datetime,
    ) -> None:
        self.repository = repository
        self.offer = offer
        self.start = start
        self.commit = commit
        self.person = person
        self.when = when

    def export(self, result: PatchResult, bodies: Path) -> Exported:
        patch = result.patch
        stem = patch.name.removesuffix(".patch")
        ref = f"refs/heads/{self.offer.project}/{stem}"
        title = patch.header["Subject"]
        if result.outcome is CarryOutcome.LANDED:
            return Exported(patch.name, title, State.LANDED, f"in {self.start.label} already")
        if result.outcome.stops:
            where = names({file.new_path for file in result.files if file.outcome.stops})
            note = f"{result.outcome.value} on {self.start.label} in {where}: {result.note}"
            return Exported(patch.name, title, State.REFUSED, note.rstrip(": "), ref)
        changes, conflicts = self._alone(result)
        if conflicts:
            note = (
                f"it needs earlier patches of the series in {names(conflicts)}; offer those first"
            )
            return Exported(patch.name, title, State.REFUSED, note, ref)
        letter = _letter(self.offer.series, patch)
        state, note, commit = self._branch(ref, changes, letter)
        file = bodies / f"{stem}.md"
        if state is not State.REFUSED:
            _write(file, f"{letter.body}\n".encode("utf-8", "surrogateescape"), self.offer.dry_run)
        return Exported(patch.name, title, state, note, ref, commit, file)

    def _alone(self, result: PatchResult) -> tuple[dict[str, Blob | None], list[str]]:
        """Merge only this patch's change into upstream; return the files and conflicting paths."""
        changes: dict[str, Blob | None] = {}
        conflicts: list[str] = []
        for file in result.files:
            merged = merge_blobs(file.before, self.start.read(file.path), file.after)
            if merged.conflict:
                conflicts.append(file.path)
            if file.path != file.new_path:
                changes[file.path] = None
            changes[file.new_path] = merged.blob
        return changes, conflicts

    def _branch(
        self, ref: str, changes: Mapping[str, Blob | None], letter: Letter
    ) -> tuple[State, str, str | None]:
        repository = self.repository
        message = letter.commit_message(self.person)
        old = repository.find(ref)
        entries = {
            self.start.upstreams(path): TreeEntry(blob.mode, repository.write_blob(blob.data))
            if blob
            else None
            for path, blob in changes.items()
        }
        tree = repository.changed_tree(self.commit, entries)
        name = ref.removeprefix("refs/heads/")
        if old and self._same(old, tree, message):
            return State.UNCHANGED, "", old
        # Replacing a branch that is still at the commit of its last export discards no user edits.
        record = _RECORD + name
        recorded = repository.find(record)
        if old and not self.offer.force and old != recorded:
            return State.REFUSED, f"branch {name} has other content; --force replaces it", old
        work_tree = repository.checked_out(ref)
        if work_tree:
            return (
                State.REFUSED,
                f"branch {name} is checked out in {work_tree}; leave it first",
                old,
            )
        if self.offer.dry_run:
            return (State.REPLACED if old else State.NEW), "dry run", None
        commit = repository.commit(tree, [self.commit], message, author=self.person, when=self.when)
        # If the process is killed between the two ref updates, the branch looks as if the user had
        # created it, so later exports do not overwrite it.
        repository.move(ref, commit, old, f"export: {letter.title}")
        repository.move(record, commit, recorded, f"export: {letter.title}")
        return (State.REPLACED if old else State.NEW), "", commit

    def _same(self, commit: str, tree: str, message: str) -> bool:
        repository = self.repository
        return (
            repository.find(commit, "tree") == tree
            and repository.find(f"{commit}^") == self.commit
            and repository.message(commit).strip() == message.strip()
        )


def _start(repository: Repository, offer: Offer) -> str:
    """Return the commit that the new branches are based on."""
    if offer.onto:
        commit = repository.find(offer.onto)
        if commit is None:
            raise UserError(
                f"--onto {offer.onto}: no such revision in {repository.path}. Fetch it there first"
            )
        return commit
    for name in (offer.base.commit, *_MAIN):
        commit = repository.find(name) if name else None
        if commit:
            return commit
    raise UserError(
        f"{repository.path}: no commit to begin a branch at. Fetch upstream's main, or use --onto"
    )


def _letter(series: Series, patch: Patch) -> Letter:
    return letter_of(patch, (series.root / patch.name).read_bytes())


def _write(file: Path, data: bytes, dry_run: bool) -> State:
    old = file.read_bytes() if file.is_file() else None
    if old == data:
        return State.UNCHANGED
    if not dry_run:
        write_file(file, data)
    return State.NEW if old is None else State.REPLACED
