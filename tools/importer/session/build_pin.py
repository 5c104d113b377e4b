# SPDX-License-Identifier: Apache-2.0
"""Update the build's pin to the imported release, with the hash of the patched tree."""

from __future__ import annotations

from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.session.reimport import Carried
from tools.importer.snapshot import Snapshot


def moved_pin(
    project: Project, new: Snapshot, carried: Carried, report: Report
) -> dict[str, object] | None:
    """Return the new content of pin.json, or None if the build cannot use the import's origin.

    For example, the build of torch can use only wheels, not git repositories. Raises UserError if
    the patched tree cannot be built.
    """
    # Imported lazily, because commands such as `status` need no builder.
    from tools.importer.builders import builder_of

    return builder_of(project).after_import(project, new, carried.files, report)
