# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.metadata.starlark import calls, constant
from tools.par.testing.budget import examples

_DATA = st.recursive(
    st.text(max_size=8) | st.integers(0) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(_DATA)
def test_literals_are_their_values(tmp_path_factory: pytest.TempPathFactory, data: object) -> None:
    file = tmp_path_factory.mktemp("pins") / "pins.bzl"
    file.write_text(f"PIN = {data!r}\n", encoding="utf-8")
    assert constant(file, "PIN") == data


def test_pins_and_calls(tmp_path: Path) -> None:
    file = tmp_path / "MODULE.bazel"
    file.write_text(
        '"""Doc."""\nload(":x.bzl", "y")\nbazel_dep(name = "a", version = "1")\n'
        "_PINS = {\n    # why\n"
        '    "zlib": dict(urls = ["u"], files = {"a": "b"}),\n}\n'
        'bazel_dep(name = "b", version = "2", dev_dependency = True)\n'
        'pypi.lock(file = "c")\n'
        "def f():\n    bazel_dep(name = 'inner')\n",
        encoding="utf-8",
    )
    assert constant(file, "_PINS") == {"zlib": {"urls": ["u"], "files": {"a": "b"}}}
    assert [call["name"] for call in calls(file, "bazel_dep")] == ["a", "b"]
    assert calls(file, "use_repo") == []
    assert calls(file, "pypi.lock") == [{"file": "c"}]
    assert calls(file, "lock") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PIN = 'a' + version\n", r":1: ''a' \+ version' is not a constant"),
        ("\nPIN = dict(**rest)\n", r":2: .* is not a constant"),
        ("PIN = {**rest}\n", r":1: .* is not a constant"),
        ("OTHER = 1\n", "assigns no 'PIN'"),
        ("PIN = (\n", ":1: .*never closed"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "pins.bzl"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        constant(file, "PIN")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        constant(tmp_path / "pins.bzl", "PIN")


def test_the_real_pins_are_constants() -> None:
    root = Path(__file__).parents[3]
    pins = constant(root / "third_party" / "sources.bzl", "_SOURCES")
    assert isinstance(pins, dict)
    assert json.dumps(pins["zlib"]).count("zlib-1.2.13") >= 2
