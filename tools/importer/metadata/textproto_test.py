# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.metadata.textproto import (
    Field,
    Message,
    Symbol,
    TextprotoError,
    Value,
    read,
    write,
)
from tools.par.testing.budget import examples

_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
_SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.text(max_size=12), st.integers(-(2**62), 2**62), _NAMES.map(Symbol)
)


def _message(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Message]:
    return st.lists(st.builds(Field, _NAMES, values), max_size=4).map(tuple)


_MESSAGES = _message(st.recursive(_SCALARS, _message, max_leaves=8))


@settings(max_examples=examples(150), deadline=None)
@given(_MESSAGES)
def test_what_is_written_reads_back(message: Message) -> None:
    text = write(message)
    assert read(text) == message
    assert write(read(text)) == text


@settings(max_examples=examples(150), deadline=None)
@given(st.text(alphabet="ab{}:\"'\\#\n 1;,x", max_size=20))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    refused = None
    try:
        message = read(text)
    except TextprotoError as error:
        refused = error.line
    if refused is None:
        assert read(write(message)) == message
    else:
        assert 1 <= refused <= text.count("\n") + 1


def test_the_layout() -> None:
    block: Message = (Field("year", 2026), Field("kind", Symbol("GIT")))
    assert write((Field("name", 'a "b"\n'), Field("date", block))) == (
        'name: "a \\"b\\"\\n"\ndate {\n  year: 2026\n  kind: GIT\n}\n'
    )


def test_what_others_write() -> None:
    text = """
        # A comment: { is not a block.
        name: 'it\\'s' " \\x41\\102"   # pieces, escapes
        third_party: { url { type: GIT, value: "u" }; security {} }
    """
    url: Message = (Field("type", Symbol("GIT")), Field("value", "u"))
    assert read(text) == (
        Field("name", "it's AB"),
        Field("third_party", (Field("url", url), Field("security", ()))),
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('a: "x\ny"', 1, "cannot read '\"x'"),
        ("a: 1\nb {\n c: 2\n", 2, "no closing brace"),
        ("a: 1\n}", 2, "} stands where"),
        ("a 1", 1, "'a' needs a colon"),
        ("a:", 1, "'a' has no value"),
        ("a: }", 1, "'a' has no value"),
        ("\na: [1]", 2, "cannot read '\\[1\\]'"),
        ("a: 1.5", 1, "cannot read '1.5'"),
        ('a: "\\377"', 1, "the escape"),
        ('a: "\\q"', 1, "the escape"),
        ('a: "\\8"', 1, "the escape"),
        ('a: "\\x"', 1, "the escape"),
    ],
)
def test_refusals_name_the_line(text: str, line: int, message: str) -> None:
    with pytest.raises(TextprotoError, match=message) as raised:
        read(text)
    assert raised.value.line == line
