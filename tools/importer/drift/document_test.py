# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.drift import (
    Cell,
    FileCell,
    Release,
    Row,
    Table,
    from_document,
    to_document,
    to_json,
    to_page,
    to_terminal,
    to_text,
)
from tools.importer.engine import Outcome
from tools.importer.errors import UserError
from tools.par.testing.budget import examples

_WORDS = st.text(max_size=12)
_OUTCOMES = st.sampled_from(Outcome)
_INNER = st.lists(st.text(max_size=8).filter(lambda text: "\n" not in text), max_size=3)


@st.composite
def _tables(draw: st.DrawFn) -> Table:
    labels = draw(st.lists(_WORDS, max_size=3, unique=True))
    releases = tuple(
        Release(label, draw(st.none() | _WORDS), draw(_WORDS), {"kind": draw(_WORDS)})
        for label in labels
    )
    files = st.builds(
        FileCell,
        _WORDS,
        _WORDS,
        _OUTCOMES,
        _WORDS,
        _INNER.map(lambda lines: "".join(f"{line}\n" for line in lines)),
    )
    cells = st.builds(Cell, _OUTCOMES, _WORDS, st.lists(files, max_size=2).map(tuple))
    rows = tuple(
        Row(
            draw(_WORDS),
            draw(_WORDS),
            draw(_WORDS),
            draw(_WORDS),
            draw(_WORDS),
            tuple(draw(cells) for _ in releases),
        )
        for _ in range(draw(st.integers(0, 3)))
    )
    return Table(draw(_WORDS), draw(_WORDS), draw(st.none() | _WORDS), releases, rows)


@given(_tables())
@settings(max_examples=examples(60), deadline=None)
def test_a_document_is_the_table(table: Table) -> None:
    text = to_json(table)
    assert from_document(json.loads(text), where="x") == table
    assert to_json(from_document(json.loads(text), where="x")) == text


@given(_tables())
@settings(max_examples=examples(40), deadline=None)
def test_every_table_can_be_shown(table: Table) -> None:
    for text in (to_text(table), to_page(table), to_terminal(table, width=80)):
        assert text.endswith("\n")
        text.encode("utf-8", "strict")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "drift.json: format is 2, this tool reads 1. Generate it again"),
        ({"patches": 7}, "drift.json: damaged"),
        ({"patches": [{"name": "a.patch"}]}, "drift.json: damaged"),
        ({"releases": [{"label": "v1"}]}, "drift.json: damaged"),
    ],
)
def test_a_damaged_document_is_refused(change: dict[str, object], message: str) -> None:
    table = Table("v1", "d", None, (), ())
    with pytest.raises(UserError) as caught:
        from_document(to_document(table) | change, where="drift.json")
    assert str(caught.value).startswith(message)
