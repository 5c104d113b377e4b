# SPDX-License-Identifier: Apache-2.0
"""Compare a vendored tree, as committed in a monorepo, with upstream plus our patches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.git_repo import Repository
from tools.importer.git_repo.containment import Globs, check_destination
from tools.importer.git_repo.labels import Labels, last_vendored
from tools.importer.report import Report
from tools.importer.snapshot import Snapshot
from tools.importer.tree import Entry
from tools.importer.verify.difference import Difference, Kind, compare

_WHERE = "vendored"


@dataclass(frozen=True)
class VendoredTree:
    """A vendored directory as of one commit. The digests in `entries` are git blob ids.

    `labels` come from the message of the commit that vendored it.
    """

    labels: Labels
    entries: dict[str, Entry]


def read_vendored(path: Path, destination: str, branch: str | None = None) -> VendoredTree:
    """Read the tree vendored at `destination`, from the tip of `branch` or from HEAD.

    Raises UserError if the branch does not exist, or if no commit vendored `destination`.
    """
    repository = Repository.open(path)
    try:
        name = f"refs/heads/{branch.removeprefix('refs/heads/')}" if branch else "HEAD"
        commit = repository.find(name)
        if commit is None:
            raise UserError(f"{path}: no commit at {name}. Name a branch with --branch")
        destination = check_destination(destination, repository, commit)
        last = last_vendored(repository, commit, destination)
        if last is None:
            raise UserError(
                f"{path}: no commit of {name} says that it vendored {destination}. `import.py vendor` does"
            )
        kept = Globs(last.labels.keep)
        files = repository.files_at(commit, destination)
    finally:
        repository.close()
    entries = {name: Entry(file.mode, file.oid) for name, file in files.items() if name not in kept}
    return VendoredTree(last.labels, entries)


def check_vendored(
    vendored: VendoredTree, patched: Snapshot, series_digest: str, report: Report
) -> list[Difference]:
    """Compare a vendored tree with `patched`, upstream's tree with our patches applied."""
    kept = Globs(vendored.labels.keep)
    differences = []
    if vendored.labels.series != series_digest:
        note = f"{vendored.labels.series[:16]}, the series here is {series_digest[:16]}"
        differences.append(Difference(_WHERE, Kind.CHANGED, "Series-Digest", note))
    paths = sorted(path for path in patched.paths() if path not in kept)
    want: dict[str, Entry] = {}
    with report.progress(
        f"Reading {vendored.labels.project} {vendored.labels.tag}", len(paths)
    ) as step:
        for path in paths:
            blob = patched.read(path)
            step.advance()
            if blob is not None:
                want[path] = Entry(blob.mode, blob.oid)
    return differences + compare(_WHERE, want, vendored.entries)
