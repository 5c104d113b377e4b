# SPDX-License-Identifier: Apache-2.0
"""Test option types: parsed values, rejected text, and round trips."""

from __future__ import annotations

import ast
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_google.flags.kinds import kind
from torch_google.flags.knobs import parse_knobs
from torch_google.flags.registry import Option, options

_FLAGS = [option for option in options() if not option.left_out]


@pytest.mark.parametrize(
    ("type_text", "text", "value"),
    [
        ("bool", "true", True),
        ("bool", "0", False),
        ("bool", "Yes", True),
        ("bool | None", "none", None),
        ("bool | None", "f", False),
        ("bool | str", "y", "y"),
        ("bool | str", "1", True),
        ("int", "-3", -3),
        ("int", "0x10", 16),
        ("int | None", "None", None),
        ("float", "2", 2.0),
        ("float", "inf", float("inf")),
        ("str", "None", "None"),
        ("str", "", ""),
        ("str | None", "None", None),
        ("str | None", "[1]", "[1]"),
        ("Literal['a', 'b']", "b", "b"),
        ("Literal[0, 1, 2]", "2", 2),
        ("Literal['a'] | None", "none", None),
        ("list[str]", "['a', 'b']", ["a", "b"]),
        ("list[int]", "[1, 2]", [1, 2]),
        ("list", "[1, 'a']", [1, "a"]),
        ("str | list[str] | None", "a", "a"),
        ("str | list[str] | None", '["a"]', ["a"]),
        ("dict[str, int]", '{"a": 1}', {"a": 1}),
        ("dict[str, Any]", '{"a": true}', {"a": True}),
        ("set", "{'a'}", {"a"}),
        ("tuple[int, int, int]", "(1, 2, 3)", (1, 2, 3)),
        ("tuple[int, ...]", "()", ()),
        ("tuple[None, str]", "(None, 'g++')", (None, "g++")),
        ("Any", "{'a': 1}", {"a": 1}),
        ("Any", "words", "words"),
    ],
)
def test_text_is_read(type_text: str, text: str, value: Any) -> None:
    parsed = kind(type_text).parse(text)
    assert parsed == value
    assert isinstance(parsed, type(value))


@pytest.mark.parametrize(
    ("type_text", "text"),
    [
        ("bool", "2"),
        ("bool", "None"),
        ("int", "1.5"),
        ("int", "True"),
        ("int | None", ""),
        ("float", "fast"),
        ("Literal['a', 'b']", "c"),
        ("Literal[0, 1]", "true"),
        ("list[str]", "[1]"),
        ("list[str]", "a,b"),
        ("dict[str, int]", "{'a': 'b'}"),
        ("tuple[int, int, int]", "(1, 2)"),
        ("set", "[1]"),
    ],
)
def test_text_that_is_none_is_refused(type_text: str, text: str) -> None:
    with pytest.raises(ValueError, match="is not "):
        kind(type_text).parse(text)


@pytest.mark.parametrize("option", _FLAGS, ids=lambda option: option.flag)
def test_every_default_is_of_its_type_and_comes_back(option: Option) -> None:
    of = kind(option.type)
    if option.default is None:
        assert of.text_of_type == option.type
        return
    default = ast.literal_eval(option.default)
    assert of.fits(default)
    assert of.parse(of.text(default)) == default


_TEXT = st.text(string.printable)  # Hypothesis takes seconds to start with all of Unicode
_VALUES = {
    "bool | None": st.none() | st.booleans(),
    "dict[str, Any]": st.dictionaries(_TEXT, st.integers() | _TEXT | st.none()),
    "float": st.floats(allow_nan=False),
    "int": st.integers(),
    "list[str]": st.lists(_TEXT),
    "str": _TEXT,
    "tuple[int, ...]": st.lists(st.integers()).map(tuple),
}


@pytest.mark.parametrize("type_text", list(_VALUES))
def test_a_value_comes_back(type_text: str) -> None:
    of = kind(type_text)

    @given(_VALUES[type_text])
    def comes_back(value: Any) -> None:
        assert of.parse(of.text(value)) == value

    comes_back()


def test_knobs() -> None:
    assert parse_knobs("a/b:c=true,d=0,e=12,") == {"a/b:c": 1, "d": 0, "e": 12}
    for text in ("a", "=1", "a=maybe"):
        with pytest.raises(ValueError, match=text):
            parse_knobs(text)
