# SPDX-License-Identifier: Apache-2.0
"""Commit a patched upstream tree to a monorepo, as one commit with labels (see labels.py).

Vendoring first writes objects that no ref points at, then publishes them by moving one ref. If the
process is killed at any point, the branch has either the old or the new tree, and the next run
completes a half-written working tree.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.importer.errors import UserError
from tools.importer.git_repo.blob_writer import BlobWriter
from tools.importer.git_repo.checkout import Checkout, Plan, changes_between, names
from tools.importer.git_repo.containment import (
    Globs,
    check_destination,
    check_links,
    check_paths,
)
from tools.importer.git_repo.exclusive import exclusive
from tools.importer.git_repo.labels import Labels, Vendored, last_vendored
from tools.importer.git_repo.pending import Pending, clear_pending, read_pending, write_pending
from tools.importer.git_repo.repository import Person, Repository, TreeEntry
from tools.importer.report import Report
from tools.importer.snapshot import SYMLINK, Blob, Snapshot

Files = Mapping[str, TreeEntry]


@dataclass(frozen=True)
class Source:
    """The tree to vendor. The patches are already applied to `tree`."""

    project: str
    tag: str
    revision: str | None
    series: str  # the digest of the series
    patches: int
    tree: Snapshot


@dataclass(frozen=True)
class Destination:
    """The directory to vendor into. `branch` is a full ref; None means the checked-out branch."""

    path: str
    keep: Sequence[str] = ()
    branch: str | None = None


class Outcome(enum.Enum):
    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    WOULD_COMMIT = "would commit"


@dataclass(frozen=True)
class Difference:
    """The paths that vendoring changes, relative to the destination and sorted."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """The result of a run. `commit` is None if the run created no commit.

    `caught_up` is true if an interrupted run was completed first.
    """

    outcome: Outcome
    ref: str
    commit: str | None
    difference: Difference
    caught_up: bool


@dataclass(frozen=True)
class Edit:
    """A file that has been edited since it was vendored: its vendored and current versions."""

    path: str
    recorded: Blob | None
    current: Blob | None


class LocalEditsError(UserError):
    """Raised for committed edits that no patch contains. `fixup_patch` can export `edits`."""

    def __init__(self, message: str, edits: tuple[Edit, ...]) -> None:
        super().__init__(message)
        self.edits = edits


def vendor(
    repository: Repository,
    source: Source,
    destination: Destination,
    *,
    author: Person,
    when: datetime.datetime,
    report: Report,
    dry_run: bool = False,
) -> Result:
    """Vendor `source`. Raises UserError or LocalEditsError before anything has changed."""
    with exclusive(repository):
        return _Vendoring(repository, source, destination, report).run(author, when, dry_run)


class _Vendoring:
    def __init__(
        self, repository: Repository, source: Source, destination: Destination, report: Report
    ) -> None:
        self.repository = repository
        self.source = source
        self.report = report
        self.keep = Globs(destination.keep)
        self.ref, self.checkout = self._branch(destination)
        self.old = repository.find(self.ref)
        self.head = self.old or repository.find("HEAD")  # a new branch starts at HEAD
        self.destination = check_destination(destination.path, repository, self.head)
        self.origin = f"{source.project} {source.tag}"

    def run(self, author: Person, when: datetime.datetime, dry_run: bool) -> Result:
        caught_up = self._catch_up(dry_run)
        if self.checkout:
            self.checkout.check_clean(self.destination, self.keep)
        present = self._files(self.head)
        kept = {path: entry for path, entry in present.items() if path in self.keep}
        current = {path: entry for path, entry in present.items() if path not in self.keep}
        last = last_vendored(self.repository, self.head, self.destination) if self.head else None
        self._check_edits(current, last)

        with BlobWriter(self.repository) as writer:
            upcoming = self._read_source({entry.oid for entry in present.values()}, writer, dry_run)
        _check_kept(upcoming, kept, self.origin)
        difference = _difference(current, upcoming)
        nothing = (
            upcoming == current
            and last is not None
            and self._labels(last.labels.tree) == last.labels
        )
        if nothing or dry_run:
            outcome = Outcome.UNCHANGED if nothing else Outcome.WOULD_COMMIT
            return Result(outcome, self.ref, None, difference, caught_up)

        tree = self.repository.write_tree(upcoming)
        full = self.repository.write_tree({**kept, **upcoming}) if kept else tree
        commit = self.repository.commit(
            self.repository.graft(self.head, self.destination, full),
            [self.head] if self.head else [],
            self._message(self._labels(tree)),
            author=author,
            when=when,
        )
        self._publish(commit, self._plan(present, {**kept, **upcoming}))
        return Result(Outcome.COMMITTED, self.ref, commit, difference, caught_up)

    def _branch(self, destination: Destination) -> tuple[str, Checkout | None]:
        """Return the ref to move, and the checkout to update with it if the ref is checked out."""
        where = self.repository.path
        current = self.repository.current_branch()
        ref = destination.branch or current
        if ref is None:
            raise UserError(
                f"{where}: no branch is checked out (HEAD is detached). Check one out, "
                "or name one with --branch"
            )
        if self.repository.work_tree and ref == current:
            return ref, Checkout(self.repository)
        elsewhere = self.repository.checked_out(ref)
        if elsewhere and elsewhere != self.repository.work_tree:
            raise UserError(f"{where}: {ref} is checked out in {elsewhere}. Use --into {elsewhere}")
        return ref, None

    def _catch_up(self, dry_run: bool) -> bool:
        """Complete the working tree if an earlier run was killed after it had updated the ref."""
        pending = read_pending(self.repository)
        if pending is None or dry_run:
            return False
        published = self.repository.find(pending.ref) == pending.new
        followed = published and self.repository.current_branch() == pending.ref
        if followed and self.repository.work_tree:
            old = self.repository.files_at(pending.old, pending.at)
            new = self.repository.files_at(pending.new, pending.at)
            checkout = Checkout(self.repository)
            checkout.follow(checkout.plan(changes_between(old, new, pending.at)), self.report)
        clear_pending(self.repository)
        return followed

    def _check_edits(self, current: Files, last: Vendored | None) -> None:
        """Raise LocalEditsError for committed edits in the destination that no patch contains."""
        if last:
            if last.labels.project != self.source.project:
                raise UserError(
                    f"{self.repository.path}: {self.destination} holds "
                    f"{last.labels.project}, vendored by {last.commit[:12]}. Give {self.source.project} a directory of its own"
                )
            recorded: Files = self._recorded(last)
            since = f"since {last.commit[:12]} ({last.labels.tag})"
        elif current:
            recorded = self._read_source(set(), None, True)
            since = "and no vendored commit is in its history"
        else:
            return
        edits = []
        for path in sorted(current.keys() | (recorded.keys() if last else ())):
            if current.get(path) == recorded.get(path) or path in self.keep:
                continue
            upcoming = self.source.tree.read(path)
            if upcoming and current.get(path) == TreeEntry(upcoming.mode, upcoming.oid):
                continue
            if upcoming is None and path not in current:
                continue
            edits.append(path)
        if not edits:
            return
        read = self.repository.read
        raise LocalEditsError(
            f"{self.repository.path}: {len(edits)} edited below {self.destination} outside "
            f"the patches, {since}: {names(edits)}. Make them a patch (--fixup FILE writes it) or undo them there",
            tuple(Edit(path, read(recorded.get(path)), read(current.get(path))) for path in edits),
        )

    def _recorded(self, last: Vendored) -> dict[str, TreeEntry]:
        """Return the files of the last vendored tree, whose ID the commit message records.

        If git no longer has that tree, rebuild it from the commit. Raises UserError if the rebuilt
        tree has a different ID, which means that the commit was edited after vendoring.
        """
        tree = last.labels.tree
        if self.repository.find(tree, "tree"):
            return self.repository.files(tree)
        # The recorded tree omits the files that --keep preserves, so no commit refers to it, and
        # git gc may have deleted it.
        kept = Globs(last.labels.keep)
        files = {
            path: entry for path, entry in self._files(last.commit).items() if path not in kept
        }
        if self.repository.write_tree(files) != tree:
            raise UserError(
                f"{self.repository.path}: {last.commit[:12]} does not hold the tree of its label "
                f"Imported-Tree: {tree}. It was edited after it was vendored: restore it, or remove "
                f"its labels and vendor {last.labels.tag} again, which shows the edits"
            )
        return files

    def _read_source(
        self, have: set[str], writer: BlobWriter | None, dry_run: bool
    ) -> dict[str, TreeEntry]:
        """Read the source and return its entries. Blobs that are not in `have` are stored."""
        tree, have = self.source.tree, set(have)
        paths = sorted(path for path in tree.paths() if path not in self.keep)
        check_paths(paths, self.origin)
        entries: dict[str, TreeEntry] = {}
        links: dict[str, str] = {}
        with self.report.progress(f"reading {self.origin}", len(paths)) as progress:
            for path in paths:
                blob = tree.read(path)
                progress.advance()
                if blob is None:
                    continue
                if blob.mode == SYMLINK:
                    links[path] = blob.data.decode("utf-8", "surrogateescape")
                entries[path] = TreeEntry(blob.mode, blob.oid)
                if writer and not dry_run and blob.oid not in have:
                    writer.write(blob.data)
                    have.add(blob.oid)
        check_links(links, self.origin)
        return entries

    def _plan(self, old: Files, new: Files) -> Plan | None:
        """Return a checked plan for updating the working tree; None if there is no checkout."""
        if self.checkout is None:
            return None
        return self.checkout.plan(changes_between(old, new, self.destination))

    def _publish(self, commit: str, plan: Plan | None) -> None:
        if self.checkout:
            write_pending(self.repository, Pending(self.ref, self.old, commit, self.destination))
        self.repository.move(self.ref, commit, self.old, f"vendor: {self.origin}")
        if self.checkout and plan:
            self.checkout.follow(plan, self.report)
            clear_pending(self.repository)

    def _files(self, commit: str | None) -> dict[str, TreeEntry]:
        return self.repository.files_at(commit, self.destination)

    def _labels(self, tree: str) -> Labels:
        source = self.source
        return Labels(
            source.project,
            source.tag,
            self.destination,
            self.keep.globs,
            tree,
            source.series,
            source.revision,
        )

    def _message(self, labels: Labels) -> str:
        count = self.source.patches
        patches = f" with {count} patch{'' if count == 1 else 'es'}" if count else ""
        return f"{self.source.project}: import {self.source.tag}{patches}\n\n{labels.text()}"


def _difference(old: Files, new: Files) -> Difference:
    return Difference(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
        tuple(sorted(old.keys() - new.keys())),
    )


def _check_kept(upcoming: Files, kept: Files, origin: str) -> None:
    """Raise UserError if an upstream file and a file that --keep preserves cannot coexist.

    They cannot if the path of one is a parent directory of the other.
    """
    for inner, outer in ((kept, upcoming), (upcoming, kept)):
        for path in inner:
            parts = path.split("/")
            for depth in range(1, len(parts)):
                parent = "/".join(parts[:depth])
                if parent in outer:
                    raise UserError(
                        f"{origin}: {parent} and {path} cannot both be: one of them is a kept file. "
                        "Move the kept file or change --keep"
                    )
