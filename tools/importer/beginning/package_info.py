# SPDX-License-Identifier: Apache-2.0
"""Find the metadata of a Python distribution in its files."""

from __future__ import annotations

import re

from third_party.pypi.package_info import PackageInfo, parse_package_info
from tools.importer.selection import whole
from tools.importer.snapshot import Snapshot


def read_package_info(tree: Snapshot) -> PackageInfo:
    """Return the metadata of the distribution in a tree; empty if the tree has no metadata."""
    tree = whole(tree)
    for path in sorted(tree.paths()):
        if path == "PKG-INFO" or re.fullmatch(r"[^/]+\.dist-info/METADATA", path):
            blob = tree.read(path)
            if blob is not None:
                return parse_package_info(blob.data)
    return PackageInfo()
