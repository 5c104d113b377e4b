# SPDX-License-Identifier: Apache-2.0
"""Test support: Hypothesis strategies for small trees with odd but realistic names and modes."""

from __future__ import annotations

from hypothesis import strategies as st

from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, Blob

Files = dict[str, Blob]

_NAMES = (
    "a",
    "b.py",
    "with space",
    "tab\there",
    'q"uote" x',
    "back\\slash",
    "[brackets] {x}",
    "élan",
    "\udcff",
    " lead",
    "trail ",
    "-dash",
    "new\nline",
    "\x7f",
)
_LINES = (
    b"\n",
    b"a\n",
    b"b\n",
    b"\treturn x\n",
    b"crlf\r\n",
    b"\r\n",
    b"\xff\xfe\n",
    b"-- x\n",
    b"++ y\n",
    b"@@ -1 +1 @@\n",
    b"diff --git a/a b/a\n",
    b"no\rreturn\n",
)
_ENDS = (b"", b"no newline", b"\r", b" ")


def contents() -> st.SearchStrategy[bytes]:
    """Return a strategy for file contents: mostly text with repeated lines, some binary data."""
    lines = st.lists(
        st.one_of(st.sampled_from(_LINES), st.integers(0, 9).map(lambda n: b"line %d\n" % n)),
        max_size=25,
    )
    text = st.tuples(lines.map(b"".join), st.sampled_from(_ENDS)).map(b"".join)
    return st.one_of(text, text, text, st.binary(max_size=80).map(lambda data: data + b"\0\n"))


def blobs() -> st.SearchStrategy[Blob]:
    links = st.sampled_from([b"a", b"b.py", b"with space", b"\xff", b"./a/b"])
    return st.one_of(
        st.builds(Blob, contents(), st.sampled_from([REGULAR, REGULAR, REGULAR, EXECUTABLE])),
        links.map(lambda target: Blob(target, SYMLINK)),
    )


def paths() -> st.SearchStrategy[str]:
    name = st.sampled_from(_NAMES)
    return st.one_of(name, name, st.tuples(name, name).map("/".join))


def trees() -> st.SearchStrategy[Files]:
    return st.dictionaries(paths(), blobs(), max_size=7).map(_no_file_is_a_directory)


@st.composite
def two_trees(draw: st.DrawFn) -> tuple[Files, Files]:
    """Generate a tree and a copy with files edited, moved, added, deleted or replaced."""
    before = draw(trees())
    after: Files = {}
    for path, blob in before.items():
        fate = draw(
            st.sampled_from(["keep", "edit", "edit", "move", "both", "mode", "gone", "new"])
        )
        where = draw(paths()) if fate in ("move", "both") else path
        if fate == "gone":
            continue
        if fate == "new":
            blob = draw(blobs())
        if fate in ("edit", "both") and blob.mode != SYMLINK:
            blob = Blob(draw(edited(blob.data)), blob.mode)
        if fate == "mode" and blob.mode != SYMLINK:
            blob = Blob(blob.data, EXECUTABLE if blob.mode == REGULAR else REGULAR)
        after.setdefault(where, blob)
    return before, _no_file_is_a_directory(
        {**after, **draw(trees())} if draw(st.booleans()) else after
    )


@st.composite
def edited(draw: st.DrawFn, data: bytes) -> bytes:
    """Generate variants of `data` with some lines edited, possibly without a final newline."""
    lines = data.split(b"\n")
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(lines)))
        new = draw(st.lists(st.sampled_from([b"a", b"new", b"crlf\r", b"", b"\xfe"]), max_size=3))
        lines[index : index + draw(st.integers(0, 2))] = new
    return b"\n".join(lines)


def _no_file_is_a_directory(files: Files) -> Files:
    return {
        path: blob
        for path, blob in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }
