# SPDX-License-Identifier: Apache-2.0
"""Operations on git repositories: vendor a patched tree, export patches, cherry-pick changes."""

from tools.importer.git_repo.cherry_pick import Header, PickConflictError, Picked, cherry_pick
from tools.importer.git_repo.commit_snapshot import CommitSnapshot
from tools.importer.git_repo.export import Exported, Offer, State, export_branches, export_files
from tools.importer.git_repo.fixup import fixup_patch
from tools.importer.git_repo.identity import configured_person, parse_person
from tools.importer.git_repo.plain_file import write_file
from tools.importer.git_repo.repository import Person, Repository, TreeEntry, is_repository
from tools.importer.git_repo.upstream_history import (
    Arrival,
    UpstreamChange,
    UpstreamHistory,
    open_history,
)
from tools.importer.git_repo.vendor import (
    Destination,
    Difference,
    Edit,
    LocalEditsError,
    Outcome,
    Result,
    Source,
    vendor,
)

__all__ = [
    "Arrival",
    "CommitSnapshot",
    "Destination",
    "Difference",
    "Edit",
    "Exported",
    "Header",
    "LocalEditsError",
    "Offer",
    "Outcome",
    "Person",
    "PickConflictError",
    "Picked",
    "Repository",
    "Result",
    "Source",
    "State",
    "TreeEntry",
    "UpstreamChange",
    "UpstreamHistory",
    "cherry_pick",
    "configured_person",
    "export_branches",
    "export_files",
    "fixup_patch",
    "is_repository",
    "open_history",
    "parse_person",
    "vendor",
    "write_file",
]
