# SPDX-License-Identifier: Apache-2.0
"""Destination repositories: vendor a patched tree into one, export patches to one, take from one."""

from tools.importer.git_repo.repository import Person, Repository, TreeEntry
from tools.importer.git_repo.vendor import (
    Edit,
    LocalEditsError,
    Outcome,
    Place,
    Result,
    Source,
    vendor,
)

__all__ = [
    "Edit",
    "LocalEditsError",
    "Outcome",
    "Person",
    "Place",
    "Repository",
    "Result",
    "Source",
    "TreeEntry",
    "vendor",
]
