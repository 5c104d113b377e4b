# SPDX-License-Identifier: Apache-2.0
"""All that a changed series changes in the workspace: its files, its recorded base, the build's pin."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from third_party.torch.unpack import read_pin, tree_hash_of
from tools.importer.editing.release import Release, built_label
from tools.importer.editing.staged import staged
from tools.importer.engine import base_files, record_base
from tools.importer.project import Project
from tools.importer.session.transaction import Transaction


@dataclass(frozen=True)
class Publication:
    """Files by their path in the workspace, None to delete; `pinned` is the build's new tree hash."""

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
    project: Project, release: Release, files: Mapping[str, bytes], wheel: Callable[[], Path]
) -> Publication:
    """Work out everything for the new series `files`; `wheel` is called when the build's pin moves.

    Raises UserError where the series is not one that a build would take.
    """
    out: dict[str, bytes | None] = {}
    directory = release.directory.relative_to(project.workspace).as_posix()
    for patch in release.series.patches:
        out[f"{directory}/{patch.name}"] = None
    out |= {f"{directory}/{name}": data for name, data in files.items()}
    pinned = None
    last: tuple[str, ...] = ()
    with staged(files, release.directory) as series:
        base = base_files(record_base(series, release.snapshot))
        out |= {f"{directory}/{name}": data for name, data in base.items()}
        # Comments and the base may change without the tree.
        moves = series.digest != release.series.digest
        if moves and release.label == built_label(project):
            pin = read_pin(project.pin)
            pinned = tree_hash_of(wheel(), series.root, _seam(project))
            path = project.pin.relative_to(project.workspace).as_posix()
            out[path] = _with_hash(project.pin.read_text(encoding="utf-8"), pin.tree_hash, pinned)
            last = (path,)
    return Publication(out, last, pinned)


def rebased_base(project: Project, release: Release) -> Publication:
    """Record the base anew for the series as it is."""
    directory = release.directory.relative_to(project.workspace).as_posix()
    files = base_files(record_base(release.series, release.snapshot))
    return Publication({f"{directory}/{name}": data for name, data in files.items()}, (), None)


def _seam(project: Project) -> Path:
    return project.pin.parent / "seam" / "_utils_internal.py"


def _with_hash(text: str, old: str, new: str) -> bytes:
    """Change the hash and nothing else: the file is written by people too."""
    quoted = json.dumps(old)
    head, found, tail = text.rpartition(quoted)
    assert found, "read_pin has just read it"
    return f"{head}{json.dumps(new)}{tail}".encode()
