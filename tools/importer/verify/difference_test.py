# SPDX-License-Identifier: Apache-2.0
"""Test that `compare` reports exactly the paths that differ."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.tree import Entry
from tools.importer.verify.difference import Difference, Kind, compare
from tools.par.testing.budget import examples

_ENTRIES = st.dictionaries(
    st.sampled_from(["a", "b", "c/d", "e"]),
    st.builds(Entry, st.sampled_from(["100644", "100755"]), st.sampled_from(["0" * 64, "1" * 64])),
)


@settings(max_examples=examples(100))
@given(want=_ENTRIES, entries=_ENTRIES)
def test_differences_say_how_to_get_back(want: dict[str, Entry], entries: dict[str, Entry]) -> None:
    fixed = dict(entries)
    for difference in compare("tree", want, entries):
        path = difference.path
        assert want.get(path) != entries.get(path)
        if difference.kind is Kind.EXTRA:
            del fixed[path]
        elif difference.kind is Kind.MISSING:
            fixed[path] = want[path]
        elif difference.kind is Kind.MODE:
            fixed[path] = Entry(want[path].mode, fixed[path].digest)
        else:
            fixed[path] = Entry(fixed[path].mode, want[path].digest)
    assert fixed == want


def test_a_line_and_json() -> None:
    (changed, mode) = compare(
        "tree", {"x": Entry("100644", "a" * 64)}, {"x": Entry("100755", "b" * 64)}
    )
    assert str(changed) == f"tree: changed x: {'b' * 16}, wants {'a' * 16}"
    assert str(mode) == "tree: mode x: 100755, wants 100644"
    assert str(Difference("tree", Kind.EXTRA, "y")) == "tree: extra y"
    assert mode.as_json() == {
        "where": "tree",
        "kind": "mode",
        "path": "x",
        "note": "100755, wants 100644",
    }
