# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tools.importer.beginning import Layout, layout_of
from tools.importer.snapshot import Blob, DictSnapshot


@pytest.mark.parametrize(
    ("paths", "layout"),
    [
        (["a/__init__.py", "a/b.py", "setup.py"], Layout(("a/**",))),
        (["src/a/__init__.py", "tests/__init__.py"], Layout(("a/**",), {"src/": ""})),
        (["a/__init__.py", "a.dist-info/METADATA"], Layout()),
        (["lib.c", "README"], Layout()),
        (["docs/__init__.py", "b/__init__.py", "a/__init__.py"], Layout(("a/**", "b/**"))),
    ],
)
def test_layouts(paths: list[str], layout: Layout) -> None:
    assert layout_of(DictSnapshot("v1", {path: Blob(b"") for path in paths})) == layout


def test_setuptools_names_modules_too() -> None:
    files = {
        "src/a.py": Blob(b""),
        "src/b/c.py": Blob(b""),
        "src/x.egg-info/top_level.txt": Blob(b"a\nb\ntests\n"),
    }
    assert layout_of(DictSnapshot("v1", files)) == Layout(("a.py", "b/**"), {"src/": ""})
