# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.engine import Decision, Resolved, Skip
from tools.importer.errors import UserError
from tools.importer.session.faults import killed_at
from tools.importer.session.unfinished import (
    Stop,
    StopFile,
    Unfinished,
    read_unfinished,
    write_unfinished,
)
from tools.importer.snapshot import MODES, Blob
from tools.par.testing.budget import examples

_BLOBS = st.none() | st.builds(Blob, st.binary(max_size=40), st.sampled_from(MODES))
_PATHS = st.sampled_from(["a", "torch/ä.py", "torch/\udcff.py", "x y"])
_DECISIONS: st.SearchStrategy[Decision] = st.just(Skip()) | st.builds(
    Resolved, st.dictionaries(_PATHS, _BLOBS, max_size=3)
)
_STOPS = st.none() | st.builds(
    Stop,
    st.just("a.patch"),
    st.just("conflict"),
    st.dictionaries(
        _PATHS,
        st.builds(
            StopFile,
            st.none() | st.just("0" * 64),
            st.sampled_from(MODES),
            st.text(max_size=5),
            st.tuples(st.just("=======")) | st.just(()),
        ),
        max_size=2,
    ),
)
_UNFINISHED = st.builds(
    Unfinished,
    st.just("import"),
    st.just("torch"),
    st.dictionaries(st.text(max_size=4), st.text(max_size=4) | st.integers(), max_size=3),
    st.dictionaries(st.sampled_from(["a.patch", "b.patch"]), _DECISIONS),
    _STOPS,
)


@settings(max_examples=examples(50), deadline=None)
@given(_UNFINISHED)
def test_what_is_written_is_read_again(unfinished: Unfinished) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write_unfinished(Path(directory) / "new", unfinished)
        assert read_unfinished(Path(directory) / "new") == unfinished


def test_killed_while_writing_it_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    old = Unfinished("import", "torch", {})
    new = Unfinished("import", "torch", {}, {"a.patch": Skip()})
    states: list[Unfinished | None] = []
    write_unfinished(tmp_path, old)
    while killed_at(len(states), lambda: write_unfinished(tmp_path, new)):
        states.append(read_unfinished(tmp_path))
        assert states[-1] in (old, new)
        write_unfinished(tmp_path, old)
    assert states[0] == old
    assert read_unfinished(tmp_path) == new


def test_nothing_is_under_way_where_nothing_was_written(tmp_path: Path) -> None:
    assert read_unfinished(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "match"), [("{", "damaged"), ('{"format": 0}', "another version"), ("[]", "another")]
)
def test_a_file_that_is_not_ours_is_refused(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(UserError, match=match):
        read_unfinished(tmp_path)
