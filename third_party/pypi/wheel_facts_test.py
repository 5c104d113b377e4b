# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from third_party.pypi.wheel_facts import WheelFacts, opens_by_path, read_facts


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1", False),
        ("import os\nFOLDER = os.path.dirname(__file__)", True),
        ("from pathlib import Path\nopen(Path(__file__).parent / 'a.txt')", True),
        ("TEXT = f'{__file__}/a.txt'", True),
        ("def f(here=__file__): ...", True),
        ("# __file__ in a comment", False),
        ("print(__file__)", False),
        ("import warnings\nwarnings.warn('old: ' + __file__)", False),
        ("__file__ = 'x'", False),
        ("module.__file__ = __file__", False),
        ("module.__file__", False),
        ("print 'Python 2', __file__", True),
        ("from importlib.resources import as_file, files\nas_file(files('a'))", True),
        ("from importlib import resources\nresources.as_file(resources.files('a') / 'b')", True),
        ("import importlib_resources as r\nr.as_file(r.files('a').joinpath(name))", True),
        ("from importlib.resources import as_file, files\nas_file(files('a') / 'b.pem')", False),
        ("import importlib.resources as r\nr.as_file(r.files('a').joinpath('b.pem'))", False),
        ("import importlib.resources\nupload.as_file()", False),
        ("upload.as_file(name)", False),
    ],
)
def test_modules_that_compute_a_path(source: str, expected: bool) -> None:
    assert opens_by_path(source.encode()) is expected


def test_the_facts_of_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a-1.dist-info/METADATA", "Name: a\nLicense-Expression: MIT\n")
        archive.writestr("a/__init__.py", "")
        archive.writestr("a/tests/data.py", "open(__file__)")
        archive.writestr("a/data.py", "open(__file__)")
    assert read_facts(wheel) == WheelFacts("MIT", ("a/data.py",))
