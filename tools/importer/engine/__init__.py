# SPDX-License-Identifier: Apache-2.0
"""The importer's merge engine: it rebases a patch series by three-way merges."""

from tools.importer.engine.base import Base, BaseFile, base_files, read_base, record_base
from tools.importer.engine.carry import Carry, carry
from tools.importer.engine.file_merge import MergedBlob, merge_blobs
from tools.importer.engine.landing import Landing, is_reverted, landings, take_out
from tools.importer.engine.merge import Labels
from tools.importer.engine.outcome import (
    Decision,
    FileResult,
    Outcome,
    PatchResult,
    Resolved,
    Settlement,
    Skip,
)
from tools.importer.engine.render import Change, context_of, header_of, render_patch
from tools.importer.engine.settlement import Settlements
from tools.importer.engine.side_by_side import Pair, pairs_of, side_by_side
from tools.importer.engine.strict import apply_to_snapshot

__all__ = [
    "Base",
    "BaseFile",
    "Carry",
    "Change",
    "Decision",
    "FileResult",
    "Labels",
    "Landing",
    "MergedBlob",
    "Outcome",
    "Pair",
    "PatchResult",
    "Resolved",
    "Settlement",
    "Settlements",
    "Skip",
    "apply_to_snapshot",
    "base_files",
    "carry",
    "context_of",
    "header_of",
    "is_reverted",
    "landings",
    "merge_blobs",
    "pairs_of",
    "read_base",
    "record_base",
    "render_patch",
    "side_by_side",
    "take_out",
]
