# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tools.importer.beginning import PackageInfo, read_package_info
from tools.importer.snapshot import Blob, DictSnapshot


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: other", "MIT OR Apache-2.0"),
        ("License: Apache", "Apache-2.0"),
        ("License: Apache 2.0", "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        ("Classifier: License :: OSI Approved :: Apache Software License", "Apache-2.0"),
        ("Classifier: Topic :: Software Development :: MIT", ""),
        ("License: BSD", ""),
        ("Summary: x", ""),
    ],
)
def test_licences(lines: str, licence: str) -> None:
    tree = DictSnapshot("v1", {"PKG-INFO": Blob(f"Name: x\n{lines}\n\nText\n".encode())})
    assert read_package_info(tree).licence == licence


def test_a_page_and_a_summary() -> None:
    text = b"Name: x\nSummary: All\n of it\nHome-page: UNKNOWN\nProject-URL: Source, https://h/x\n"
    tree = DictSnapshot("v1", {"x-1.dist-info/METADATA": Blob(text)})
    assert read_package_info(tree) == PackageInfo("All of it", "", "")
    text = text.replace(b"Home-page: UNKNOWN\n", b"")
    tree = DictSnapshot("v1", {"x-1.dist-info/METADATA": Blob(text)})
    assert read_package_info(tree).homepage == "https://h/x"
    assert read_package_info(DictSnapshot("v1", {})) == PackageInfo()
