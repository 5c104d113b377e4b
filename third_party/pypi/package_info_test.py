# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from third_party.pypi.package_info import PackageInfo, parse_package_info


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
    assert parse_package_info(f"Name: x\n{lines}\n\nText\n".encode()).licence == licence


def test_a_page_and_a_summary() -> None:
    text = b"Name: x\nSummary: All\n of it\nHome-page: UNKNOWN\nProject-URL: Source, https://h/x\n"
    assert parse_package_info(text) == PackageInfo("All of it", "", "")
    assert parse_package_info(text.replace(b"Home-page: UNKNOWN\n", b"")).homepage == "https://h/x"


@pytest.mark.parametrize(
    ("lines", "repository"),
    [
        ("Project-URL: Source, https://github.com/o/n", "https://github.com/o/n.git"),
        ("Project-URL: Source Code, https://github.com/o/n/", "https://github.com/o/n.git"),
        ("Project-URL: repository, http://gitlab.com/o/n.x.git", "https://gitlab.com/o/n.x.git"),
        ("Project-URL: Source, https://github.com/o/n/tree/main/p", "https://github.com/o/n.git"),
        ("Home-page: https://www.github.com/o/n#readme", "https://github.com/o/n.git"),
        ("Home-page: https://o.io\nProject-URL: Code, https://codeberg.org/o/n?x", "https://codeberg.org/o/n.git"),
        ("Project-URL: Funding, https://github.com/sponsors/o", ""),
        ("Project-URL: Source, https://github.com/sponsors/o", ""),
        ("Project-URL: Issues, https://github.com/o/n/issues", ""),
        ("Home-page: https://github.com/o", ""),
        ("Home-page: https://example.com/o/n", ""),
        ("Home-page: ssh://github.com/o/n", ""),
    ],
)  # fmt: skip
def test_repositories(lines: str, repository: str) -> None:
    assert parse_package_info(f"Name: x\n{lines}\n\nText\n".encode()).repository == repository
