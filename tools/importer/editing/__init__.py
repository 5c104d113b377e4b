# SPDX-License-Identifier: Apache-2.0
"""Change one patch in the middle of a series, and rebase the patches after it."""

from tools.importer.editing.desk import Desk
from tools.importer.editing.header import new_header, patch_name, with_subject
from tools.importer.editing.opening import open_release, open_unrecorded, pinned_wheel
from tools.importer.editing.patch_change import (
    changed_patch,
    new_patch,
    refuse_absent,
    refuse_generated,
)
from tools.importer.editing.publication import Publication, anew, publication
from tools.importer.editing.release import Release, built_label, series_directory
from tools.importer.editing.series_edit import (
    Kind,
    Rebased,
    SeriesEdit,
    position_of,
    rebase,
    tree_of,
    tree_up_to,
)

__all__ = [
    "Desk",
    "Kind",
    "Publication",
    "Rebased",
    "Release",
    "SeriesEdit",
    "anew",
    "built_label",
    "changed_patch",
    "new_header",
    "new_patch",
    "open_release",
    "open_unrecorded",
    "patch_name",
    "pinned_wheel",
    "position_of",
    "publication",
    "rebase",
    "refuse_absent",
    "refuse_generated",
    "series_directory",
    "tree_of",
    "tree_up_to",
    "with_subject",
]
