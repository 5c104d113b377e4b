# SPDX-License-Identifier: Apache-2.0
"""Open the inputs of an edit: the upstream tree of a patch series, and the build's wheel."""

from __future__ import annotations

import json
from pathlib import Path

from tools.importer.builders import builder_of
from tools.importer.editing.release import Release, built_label, series_directory
from tools.importer.engine import read_base, record_base
from tools.importer.engine.base import JSON_FILE
from tools.importer.origins import open_pin, resolve
from tools.importer.origins.cache import user_cache
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import load_series
from tools.importer.snapshot import Snapshot


def open_release(project: Project, report: Report, label: str | None = None) -> Release:
    """Open a release with its patch series. The default is the release that the build uses.

    Raises UserError if the series or its recorded base is missing or corrupt.
    """
    directory = series_directory(project, label)
    series = load_series(directory)
    base = read_base(directory)
    return Release(directory.name, directory, series, base, open_pin(project, report, base.pin))


def open_unrecorded(project: Project, report: Report, label: str | None = None) -> Release:
    """Open a release without using its recorded base, which may be missing, corrupt or stale."""
    directory = series_directory(project, label)
    snapshot = _upstream(project, report, directory)
    series = load_series(directory)
    return Release(directory.name, directory, series, record_base(series, snapshot), snapshot)


def pinned_wheel(project: Project, report: Report) -> Path:
    """Return the build's pinned wheel file, downloading it if it is not cached."""
    pin = builder_of(project).origin_pin(project)
    sha256 = str(pin["sha256"])
    cache = user_cache()
    file = cache.file(sha256)
    if file is None:
        open_pin(project, report, pin)
        file = cache.file(sha256)
    assert file is not None, "an opened wheel is in the cache"
    return file


def _upstream(project: Project, report: Report, directory: Path) -> Snapshot:
    """Open upstream's tree using the recorded pin, the build's pin, or the patch series' tag."""
    try:
        recorded = json.loads((directory / JSON_FILE).read_text(encoding="utf-8"))["origin"]
    except (OSError, ValueError, KeyError, TypeError):
        # The recorded base is unreadable, so fall back to the build's pin or to the tag.
        if directory.name == built_label(project):
            return open_pin(project, report, builder_of(project).origin_pin(project))
        return resolve(project, report, tag=directory.name)
    return open_pin(project, report, recorded)
