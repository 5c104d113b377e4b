# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.selection import SelectedSnapshot, Selection, ours_in, whole
from tools.importer.snapshot import Blob, DictSnapshot

_SOURCE = Selection(("x/**", "y.py"), ("x/tests/**", "**/*.md"), {"src/": ""})


@pytest.mark.parametrize(
    ("path", "our_path"),
    [
        ("src/x/a.py", "x/a.py"),
        ("x/a.py", "x/a.py"),
        ("src/y.py", "y.py"),
        ("src/z/a.py", None),
        ("src/x/tests/a.py", None),
        ("src/x/README.md", None),
        ("setup.py", None),
        ("srcx/a.py", None),
    ],
)
def test_which_files_and_where(path: str, our_path: str | None) -> None:
    assert _SOURCE.ours(path) == our_path


def test_the_longest_move_wins() -> None:
    moves = Selection(move={"src/": "", "src/x/": "other/"})
    assert moves.ours("src/x/a") == "other/a"
    assert moves.ours("src/z/a") == "z/a"
    assert moves.upstreams("other/a") == "src/x/a"
    assert moves.upstreams("z/a") == "src/z/a"


_NAMES = st.sampled_from(["a", "b", "src", "lib"])
_FOLDERS = st.lists(_NAMES, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + "/")
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(_FOLDERS, st.one_of(st.just(""), _FOLDERS), max_size=3), st.sets(_PATHS))
def test_a_file_comes_back_to_its_own_path(moves: dict[str, str], paths: set[str]) -> None:
    selection = Selection(move=moves)
    tree = DictSnapshot("v1", {path: Blob(path.encode()) for path in paths})
    try:
        selected = SelectedSnapshot(tree, selection, label="v1", natives=True, where="import.json")
    except UserError as error:
        assert "key 'move' puts both" in str(error)  # noqa: PT017 - either outcome is right
        return
    assert len(selected.paths()) == len(paths)
    for path in paths:
        our_path = ours_in(selected, path)
        assert our_path is not None
        assert selected.upstreams(our_path) == path
        assert selected.read(our_path) == Blob(path.encode())
        # upstreams() must be the inverse of ours() even for a file that only a patch adds.
        new = selection.upstreams(f"{our_path}.new")
        assert selection.ours(new) in (f"{our_path}.new", None) or new == f"{our_path}.new"


def test_a_left_out_file_is_not_carried() -> None:
    tree = DictSnapshot("v1", {"src/x/a.py": Blob(b""), "docs/b": Blob(b"")})
    selected = SelectedSnapshot(tree, _SOURCE, label="1", natives=True, where="import.json")
    assert sorted(selected.paths()) == ["x/a.py"]
    assert selected.read("docs/b") is None
    assert selected.carries("x/new.py")
    assert not selected.carries("docs/b")
    assert not selected.carries("x/tests/a.py")
    assert (selected.label, whole(selected), whole(tree)) == ("1", tree, tree)
