# SPDX-License-Identifier: Apache-2.0
"""Get what an edit needs: the upstream tree that a series was made against, and the build's wheel."""

from __future__ import annotations

import json
from pathlib import Path

from tools.importer.editing.release import Release, series_directory
from tools.importer.engine import read_base, record_base
from tools.importer.engine.base import JSON_FILE
from tools.importer.errors import UserError
from tools.importer.origins import open_pin, resolve
from tools.importer.origins.cache import user_cache
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import load_series


def open_release(project: Project, report: Report, label: str | None = None) -> Release:
    """Open the series of a release, the build's own by default. Raises UserError."""
    directory = series_directory(project, label)
    series = load_series(directory)
    base = read_base(directory)
    return Release(directory.name, directory, series, base, open_pin(project, report, base.pin))


def open_unrecorded(project: Project, report: Report, label: str | None = None) -> Release:
    """Open a series whose base is to be recorded: upstream is what the old record says, if any."""
    directory = series_directory(project, label)
    if (directory / JSON_FILE).exists():
        return open_release(project, report, label)
    snapshot = resolve(project, report, tag=directory.name)
    series = load_series(directory)
    return Release(directory.name, directory, series, record_base(series, snapshot), snapshot)


def pinned_wheel(project: Project, report: Report) -> Path:
    """Return the file of the wheel that the build is pinned to, fetched when it is not here."""
    try:
        pin = json.loads(project.pin.read_text(encoding="utf-8"))
        wheel = pin["wheel"]
        wanted = {
            "kind": "wheel",
            "tag": pin["tag"],
            "project": project.origins["wheel"]["project"],
            "version": pin["version"],
            "filename": wheel["filename"],
            "sha256": wheel["sha256"],
            "commit": pin["commit"],
            "natives": True,
        }
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{project.pin}: {error!r}. Restore it from version control") from None
    cache = user_cache()
    file = cache.file(wheel["sha256"])
    if file is None:
        open_pin(project, report, wanted)
        file = cache.file(wheel["sha256"])
    assert file is not None, "an opened wheel is in the cache"
    return file
