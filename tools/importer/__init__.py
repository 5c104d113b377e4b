# SPDX-License-Identifier: Apache-2.0
"""Read, check and apply patch series for pinned upstream trees, and hash the result.

These modules use only the standard library, because repository rules run them with the host's
python3. Tests run them with the hermetic interpreter.
"""

from tools.importer.apply import ApplyError, apply_series, patched_files
from tools.importer.errors import EnvironmentProblem, ExitCode, UserError
from tools.importer.series import Budget, Patch, Series, SeriesError, load_series, overdue
from tools.importer.snapshot import Blob
from tools.importer.tree import Entry, entry_of, file_digest, hash_entries, tree_entries, tree_hash
from tools.importer.unified import DiffError, FileDiff, Hunk, parse_diff

__all__ = [
    "ApplyError",
    "Blob",
    "Budget",
    "DiffError",
    "Entry",
    "EnvironmentProblem",
    "ExitCode",
    "FileDiff",
    "Hunk",
    "Patch",
    "Series",
    "SeriesError",
    "UserError",
    "apply_series",
    "entry_of",
    "file_digest",
    "hash_entries",
    "load_series",
    "overdue",
    "parse_diff",
    "patched_files",
    "tree_entries",
    "tree_hash",
]
