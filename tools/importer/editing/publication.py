# SPDX-License-Identifier: Apache-2.0
"""Compute the files to write for a changed patch series: patches, base and the build's pin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.importer.builders import builder_of
from tools.importer.editing.release import Release, built_label
from tools.importer.editing.staged import staged
from tools.importer.engine import apply_to_snapshot, base_files, header_of, record_base
from tools.importer.project import Project
from tools.importer.session import Transaction, check_rewrites, read_known_calls


@dataclass(frozen=True)
class Publication:
    """The files to write to the workspace, keyed by path; None deletes a file.

    The files in `last` are written last. `pinned` is the new tree hash if the build's pin changes.
    """

    files: Mapping[str, bytes | None]
    last: tuple[str, ...]
    pinned: str | None

    def into(self, transaction: Transaction) -> None:
        for path, data in self.files.items():
            if data is None:
                transaction.delete(path)
            else:
                transaction.write(path, data)


def publication(
    project: Project,
    release: Release,
    files: Mapping[str, bytes],
    wheel: Callable[[], Path],
    *,
    as_it_lies: bool = False,
) -> Publication:
    """Return the workspace files to write for a patch series with the contents `files`.

    `wheel` is called if the build's pin changes. With `as_it_lies`, `files` are the current files,
    edited by hand, so the pin may be stale. Raises UserError if a build would reject the series.
    """
    out: dict[str, bytes | None] = {}
    directory = release.directory.relative_to(project.workspace).as_posix()
    for patch in release.series.patches:
        out[f"{directory}/{patch.name}"] = None
    out |= {f"{directory}/{name}": data for name, data in files.items()}
    pinned = None
    last: tuple[str, ...] = ()
    with staged(files, release.directory) as series:
        recorded = record_base(series, release.snapshot)
        if as_it_lies or _concerns_rules(release, files):
            patched = apply_to_snapshot(series, release.snapshot, absent=recorded.absent)
            check_rewrites(series, release.snapshot, patched, read_known_calls(project))
        base = base_files(recorded)
        out |= {f"{directory}/{name}": data for name, data in base.items()}
        # The tree hash does not depend on the comments in the file `series` or on the recorded
        # base.
        moves = as_it_lies or series.digest != release.series.digest
        if moves and release.label == built_label(project):
            for name, data in base.items():
                (series.root / name).write_bytes(data)  # the builder reads this file
            builder = builder_of(project)
            path = project.pin.relative_to(project.workspace).as_posix()
            out[path], pinned = builder.after_edit(project, release.snapshot, series, wheel)
            last = (path,)
    return Publication(out, last, pinned)


def anew(project: Project, release: Release, wheel: Callable[[], Path]) -> Publication:
    """Return the files to write for patches edited by hand: their base and the build's pin."""
    names = ["series", *(patch.name for patch in release.series.patches)]
    files = {name: (release.directory / name).read_bytes() for name in names}
    return publication(project, release, files, wheel, as_it_lies=True)


def _concerns_rules(release: Release, files: Mapping[str, bytes]) -> bool:
    """Return whether any of the changed patches uses `__file__`.

    If not, the caller skips the rewrite rules' checks, which read all of upstream's files
    and therefore take longer than everything else.
    """
    changed: list[bytes] = []
    for name in {*files, *(patch.name for patch in release.series.patches)}:
        path = release.directory / name
        pair = [path.read_bytes() if path.exists() else b"", files.get(name, b"")]
        changed += pair if pair[0] != pair[1] else []
    return any(b"__file__" in _diff_of(data) for data in changed)


def _diff_of(data: bytes) -> bytes:
    return data[len(header_of(data)) :]
