# SPDX-License-Identifier: Apache-2.0
"""Read files in archives of upstream trees by path, with only the standard library."""

from tools.importer.archives.archive import write_tree
from tools.importer.archives.safe_path import check_link, check_path
from tools.importer.archives.zip_tree import ArchiveSnapshot

__all__ = ["ArchiveSnapshot", "check_link", "check_path", "write_tree"]
