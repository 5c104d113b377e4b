# SPDX-License-Identifier: Apache-2.0
"""Record the last import from each branch of a project, to continue from it next time.

The record, patches/<project>/branches.json, is written with the patch series. Without it, each
import of a branch would start from the release and stop at the same conflicts again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tools.importer.errors import UserError
from tools.importer.project import Project

FILE = "branches.json"

# The directory of the patches that landed upstream, and globs for all files in a series directory.
LANDED = "landed"
_FILES = ("*.patch", "series", "base.json", "base.lines")
SERIES_FILES = (*_FILES, *(f"{LANDED}/{name}" for name in _FILES))


@dataclass(frozen=True)
class Last:
    """The last import from a branch: the label of its patch series, and the branch's commit."""

    label: str
    commit: str


def read_branches(project: Project) -> dict[str, Last]:
    """Return the last import from each branch. Raises UserError if the file is malformed."""
    file = project.series / FILE
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return {branch: Last(row["label"], row["commit"]) for branch, row in rows.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file}: {error!r}. Restore it from version control") from None


def last_of(project: Project, ref: str | None) -> Last | None:
    """Return the last import from the branch `ref`; None if its patch series does not exist."""
    last = read_branches(project).get(_branch(ref)) if ref else None
    return last if last and (project.series_of(last.label) / "series").is_file() else None


def branch_files(project: Project, label: str, pin: Mapping[str, object]) -> dict[str, bytes]:
    """Map the path of branches.json to its contents with the import `label` added.

    Returns {} if the import is not from a branch.
    """
    ref, commit = pin.get("ref"), pin.get("commit")
    if pin.get("tag") or not isinstance(ref, str) or not ref.startswith("refs/heads/"):
        return {}
    branches = {**read_branches(project), _branch(ref): Last(label, str(commit))}
    rows = {branch: vars(last) for branch, last in sorted(branches.items())}
    path = (project.series / FILE).relative_to(project.workspace).as_posix()
    return {path: (json.dumps(rows, indent=2) + "\n").encode()}


def superseded_files(
    project: Project, label: str, pin: Mapping[str, object], *, built: str | None
) -> dict[str, None]:
    """Return the files to delete: the branch's previous patch series, which `label` replaces.

    If they were not deleted, a branch that is imported daily would add a directory each day. The
    series that the build uses (`built`) and the last series of every other branch are kept.
    """
    if not branch_files(project, label, pin):
        return {}
    branches = read_branches(project)
    last = branches.pop(_branch(str(pin["ref"])), None)
    kept = {label, built, *(each.label for each in branches.values())}
    if last is None or last.label in kept:
        return {}
    directory = project.series_of(last.label)
    return {
        path.relative_to(project.workspace).as_posix(): None
        for pattern in SERIES_FILES
        for path in directory.glob(pattern)
    }


def _branch(ref: str | None) -> str:
    return (ref or "").removeprefix("refs/heads/")
