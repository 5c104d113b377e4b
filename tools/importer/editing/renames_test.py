# SPDX-License-Identifier: Apache-2.0
"""A moved file is detected by its content, and each file is in at most one rename."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.editing.renames import find_renames
from tools.importer.snapshot import Blob
from tools.par.testing.budget import examples

_TEN = [f"line {number}\n".encode() for number in range(10)]
_BLOBS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.lists(st.sampled_from(_TEN), max_size=4).map(lambda lines: Blob(b"".join(lines))),
)


def _blob(lines: list[bytes]) -> Blob:
    return Blob(b"".join(lines))


def test_the_most_alike_wins() -> None:
    renames = find_renames(
        {"old": _blob(_TEN)},
        {"half": _blob(_TEN[:6]), "most": _blob(_TEN[:9]), "other": Blob(b"other\n" * 10)},
    )
    assert renames == {"old": "most"}


def test_equal_files_keep_their_names() -> None:
    blob = _blob(_TEN)
    assert find_renames({"a/x": blob, "a/y": blob}, {"b/y": blob, "b/x": blob}) == {
        "a/x": "b/x",
        "a/y": "b/y",
    }


def test_less_than_half_is_another_file() -> None:
    assert find_renames({"old": _blob(_TEN)}, {"new": _blob(_TEN[:4])}) == {}
    assert find_renames({"old": Blob(b"")}, {"new": Blob(b"")}) == {}


def test_a_link_is_no_renamed_file() -> None:
    assert find_renames({"old": Blob(b"x")}, {"new": Blob(b"x", "120000")}) == {}
    assert find_renames({"old": Blob(b"x", "120000")}, {"new": Blob(b"x", "120000")}) == {
        "old": "new"
    }


@settings(max_examples=examples(50))
@given(removed=_BLOBS, added=_BLOBS)
def test_each_file_is_used_once(removed: dict[str, Blob], added: dict[str, Blob]) -> None:
    renames = find_renames(removed, added)
    assert renames.keys() <= removed.keys()
    assert len(set(renames.values())) == len(renames)
    assert set(renames.values()) <= added.keys()
