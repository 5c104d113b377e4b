# SPDX-License-Identifier: Apache-2.0
"""Archives of upstream trees, read by path without unpacking them. Standard library only."""

from tools.importer.archives.archive import write_tree
from tools.importer.archives.safe_path import check_link, check_path
from tools.importer.archives.zip_tree import ArchiveSnapshot

__all__ = ["ArchiveSnapshot", "check_link", "check_path", "write_tree"]
