# SPDX-License-Identifier: Apache-2.0
"""Generate a new project's settings, pin, metadata and empty patch series from a release."""

from third_party.pypi.package_info import PackageInfo
from tools.importer.beginning.first_files import first_files
from tools.importer.beginning.first_origin import FirstOrigin, parse_origin
from tools.importer.beginning.layout import Layout, layout_of
from tools.importer.beginning.package_info import read_package_info

__all__ = [
    "FirstOrigin",
    "Layout",
    "PackageInfo",
    "first_files",
    "layout_of",
    "parse_origin",
    "read_package_info",
]
