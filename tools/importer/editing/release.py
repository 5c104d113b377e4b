# SPDX-License-Identifier: Apache-2.0
"""One release: its patches, their recorded base, and upstream's tree."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path

from tools.importer.engine import Base
from tools.importer.errors import UserError
from tools.importer.project import Project
from tools.importer.series import Series
from tools.importer.snapshot import Snapshot


@dataclass(frozen=True)
class Release:
    """A release of a project. `label` is its tag; `directory` contains its patch series."""

    label: str
    directory: Path
    series: Series
    base: Base
    snapshot: Snapshot


def series_directory(project: Project, label: str | None = None) -> Path:
    """Return the directory of a release's patch series; the default is the build's release.

    Raises UserError if the release has no patch series.
    """
    label = label or built_label(project)
    directory = project.series_of(label)
    known = sorted(file.parent.name for file in project.series.glob("*/series"))
    if label not in known:
        near = difflib.get_close_matches(label, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(known) or 'none'}"
        raise UserError(f"{directory}: no series of {label}.{hint}")
    return directory


def built_label(project: Project) -> str:
    """Return the tag of the release in pin.json."""
    try:
        return str(json.loads(project.pin.read_text(encoding="utf-8"))["tag"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{project.pin}: {error!r}. Restore it from version control") from None
