# SPDX-License-Identifier: Apache-2.0
"""Generate a new project's files: settings, pin, metadata, an empty patch series and its base."""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from third_party.pypi.package_info import PackageInfo
from tools.importer.builders import builder_of
from tools.importer.engine import base_files, record_base
from tools.importer.metadata import (
    LicenseType,
    Metadata,
    Url,
    UrlType,
    check_licence,
    licence_file,
    render_added,
)
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import load_series
from tools.importer.snapshot import Snapshot
from tools.importer.tree_pin import pin_bytes

_SERIES = """\
# The patches of {name}, in the order in which they apply; see patches/README.md.
# `tools/import.py --project {name} new SUBJECT` adds one.
"""
_BUILD = """\
# Settings, pin and metadata of an imported project; see README.md.

exports_files(
    [
        "METADATA",
        "import.json",
        "pin.json",
    ],
    visibility = ["//visibility:public"],
)
"""
_README = """\
# third_party/{name}: {summary}

`@{name}` is one release of {name} with our {patches}.
`tools/import.py --project {name}` moves them to another release; see
{importer}. `pin.json` has the release and the hash of the patched tree,
`import.json` has the origins and the chosen files, and `METADATA` has the licence.
"""


def first_files(
    project: Project,
    settings: Mapping[str, object],
    tree: Snapshot,
    info: PackageInfo,
    report: Report,
    *,
    today: datetime.date | None = None,
) -> dict[str, bytes]:
    """Return the contents of the project's initial files, keyed by workspace path."""
    workspace = project.workspace
    with tempfile.TemporaryDirectory(prefix="series-") as scratch:
        series = {"series": _SERIES.format(name=project.name).encode()}
        (Path(scratch) / "series").write_bytes(series["series"])
        series |= base_files(record_base(load_series(Path(scratch)), tree))
    pin = builder_of(project).after_import(project, tree, series, report)
    assert pin is not None, "the builder of new projects takes every origin"
    licence = check_licence(
        None, tree, recorded=None, acknowledged=True, paths=project.licence.files
    )
    texts = {
        "import.json": json.dumps(settings, indent=2) + "\n",
        "BUILD": _BUILD,
        "README.md": _README.format(
            name=project.name,
            summary=info.summary or "an imported project",
            patches=_link(workspace, "patches", "patches/README.md"),
            importer=_link(workspace, "the importer", "tools/importer/README.md"),
        ),
    }
    room = f"third_party/{project.name}"
    files = {f"{room}/{name}": text.encode() for name, text in texts.items()}
    below = project.series_of(tree.label).relative_to(workspace).as_posix()
    files |= {f"{below}/{name}": data for name, data in series.items()}
    if licence.digests:
        files[licence_file(project).relative_to(workspace).as_posix()] = licence.dumps()
    files |= render_added(project, _metadata(project, info), pin, today=today)
    files[project.pin.relative_to(workspace).as_posix()] = pin_bytes(pin)
    return files


def _link(workspace: Path, text: str, page: str) -> str:
    """Return a Markdown link to `page`, relative to the project's folder.

    Returns only `text` if the workspace does not contain the page.
    """
    return f"[{text}](../../{page})" if (workspace / page).is_file() else text


def _metadata(project: Project, info: PackageInfo) -> Metadata:
    licence = project.licence.expression
    return Metadata(
        project.name,
        info.summary or f"{project.name}, an imported project.",
        (Url(UrlType.HOMEPAGE, info.homepage),) if info.homepage else (),
        "",
        datetime.date(1970, 1, 1),
        # If upstream declares no licence, a person must review the terms before the project may
        # ship.
        LicenseType.NOTICE if licence else LicenseType.BY_EXCEPTION_ONLY,
        licence,
    )
