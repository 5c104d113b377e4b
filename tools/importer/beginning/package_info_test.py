# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tools.importer.beginning import PackageInfo, read_package_info
from tools.importer.snapshot import Blob, DictSnapshot


def test_the_metadata_of_an_sdist_and_of_a_wheel() -> None:
    blob = Blob(b"Name: x\nSummary: All of it\nLicense: MIT\n\nText\n")
    for name in ("PKG-INFO", "x-1.dist-info/METADATA"):
        tree = DictSnapshot("v1", {name: blob})
        assert read_package_info(tree) == PackageInfo("All of it", "", "MIT")
    assert read_package_info(DictSnapshot("v1", {"a/PKG-INFO": blob})) == PackageInfo()
