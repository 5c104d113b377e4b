# SPDX-License-Identifier: Apache-2.0
"""Corrupt and malicious patches cause one-line errors and use little memory."""

from __future__ import annotations

import base64
import resource
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer import binary
from tools.importer.apply import ApplyError, apply_series
from tools.importer.binary import write_literal
from tools.importer.errors import UserError
from tools.importer.names import escapes
from tools.importer.series import SeriesError, load_series, parse_header
from tools.importer.snapshot import blob_id
from tools.importer.unified import DiffError, parse_diff
from tools.par.testing.budget import examples

_HEADER = b"""\
Subject: Any
Owner: packaging
Reason: build
Upstream: remove when the test passes without it
Extension-point-considered: none
Test: any_test.py::test_any

"""
_NONE = b"0" * 40
_OIDS = _NONE + b".." + blob_id(b"\0bytes").encode()
_SAMPLE = (
    b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n--- a/x\n+++ b/x\n"
    b"@@ -1,2 +1,2 @@ def f():\n keep\n-old\n+new\n\\ No newline at end of file\n"
    b'diff --git "a/q\\"\\351" "b/q\\"\\351"\nnew file mode 120000\n'
    b'--- /dev/null\n+++ "b/q\\"\\351"\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n'
    b"diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n"
    b"diff --git a/bin b/bin\nnew file mode 100644\nindex "
    + _OIDS
    + b"\nGIT binary patch\n"
    + write_literal(b"\0bytes")
    + write_literal(b"")
)


def _one_line(error: UserError) -> str:
    text = str(error)
    assert text.isprintable(), text
    assert len(text) < 1000
    return text


def _series(root: Path, *diffs: bytes, header: bytes = _HEADER) -> Path:
    root.mkdir(exist_ok=True)
    names = [f"p{number}.patch" for number in range(len(diffs))]
    (root / "series").write_text("\n".join(names))
    for name, diff in zip(names, diffs, strict=True):
        (root / name).write_bytes(header + diff)
    return root


def test_the_sample_is_sound() -> None:
    assert [diff.path for diff in parse_diff(_SAMPLE)] == ["x", 'q"\udce9', "to", "bin"]


def test_a_diff_that_ends_anywhere_is_a_diff_or_one_line() -> None:
    for size in range(len(_SAMPLE)):
        try:
            parse_diff(_SAMPLE[:size])
        except DiffError as error:
            _one_line(error)


@settings(deadline=None, max_examples=examples(300))
@given(data=st.data())
def test_damaged_bytes_are_a_diff_or_one_line(data: st.DataObject) -> None:
    damaged = bytearray(_SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(damaged) - 1))
        damaged[index : index + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"\n", b"\0", b"\x1b[2J", b"9" * 5000, b"\xff", b'"', b"a"])
        )
    try:
        parse_diff(bytes(damaged))
    except DiffError as error:
        _one_line(error)


def _names(path: bytes) -> bytes:
    return b"--- a/" + path + b"\n+++ b/" + path + b"\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    "path",
    [b"/etc/passwd", b"../x", b"x/../../y", b".git/hooks/pre-commit", b"sub/.GIT/config", b"x/."],
)
@pytest.mark.parametrize("kind", ["text", "rename", "binary", "mode"])
def test_paths_that_no_patch_may_touch(path: bytes, kind: str) -> None:
    diff = {
        "text": _names(path),
        "rename": b"diff --git a/x b/" + path + b"\nrename from x\nrename to " + path + b"\n",
        "binary": b"diff --git a/%b b/%b\nindex %b\nGIT binary patch\n" % (path, path, _OIDS),
        "mode": b"diff --git a/%b b/%b\nold mode 100644\nnew mode 100755\n" % (path, path),
    }[kind]
    with pytest.raises(DiffError, match="not a plain path|inside a '.git'") as raised:
        parse_diff(diff)
    _one_line(raised.value)


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        (b'--- "a/../\\n\\033[2J"\n+++ b/x\n', r"'../\\n\\x1b\[2J' is not a plain path"),
        (_names(b"x").replace(b"-1 +1", b"-1,%b +1" % (b"9" * 5000)), "not a hunk header"),
        (
            b"diff --git a/x b/x\nindex %b\nGIT binary patch\nliteral 1%b\n" % (_OIDS, b"0" * 5000),
            "needs",
        ),
        (b"diff --git a/x b/x\nindex %b\nGIT binary patch\nliteral 999999999\n" % _OIDS, "limit"),
        (b"diff --git a/x b/x\nindex " + b"f" * 90000 + b"\n", "not an index line"),
        (b"diff --git a/x b/x\nold mode " + b"7" * 90000 + b"\n", "mode 7"),
        (b"diff --git a/x b/x\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "'y' is not what"),
        (b"diff --git a/x b/x\ndeleted file mode 100644\n" + _names(b"x"), "belong together"),
        (_names(b"x")[:-1], "ends within a line"),
        (b"diff --git a/x b/y\nrename from x\nrename to y", "ends within a line"),
        (b"diff --git a/x b/x\nnew file mode 100755\ndeleted file mode 100644\n", "only one of"),
        (
            b"diff --git a/x b/y\ndeleted file mode 100644\nrename from x\nrename to y\n",
            "only one of the three",
        ),
        (
            b"diff --git a/x b/x\ndeleted file mode 100644\n+++ /dev/null\n-a\n",
            "without '---'",
        ),
        (_names(b"x") + b"-c\n+d\n", "continues after the line counts"),
        (_names(b"x") + b" c\n", "continues after the line counts"),
        (
            b"diff --git a/x b/x\nnew file mode 100644\nindex %b\nGIT binary patch\n" % _OIDS
            + write_literal(b"\0bytes")[:-1],
            "no empty line ends it",
        ),
        (b"diff --git a/x b/x\nrename from x\n" + _names(b"x"), "belong together"),
        (b"diff --git a/x b/y\n" + _names(b"x"), "no rename is stated"),
        (
            b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\nindex 1234567..89abcde 100644\n"
            + _names(b"x"),
            "not what the lines above it say",
        ),
        (
            b"--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n\\ No newline\n+c\n",
            "precedes the last line of its side",
        ),
    ],
)
def test_hostile_diffs(diff: bytes, message: str) -> None:
    with pytest.raises(DiffError, match=message) as raised:
        parse_diff(diff)
    _one_line(raised.value)


def test_git_reads_the_same_two_names() -> None:
    """Inside a name, a quote followed by a space looks like the end of the name."""
    (diff,) = parse_diff(
        b'diff --git "a/q\\" b/x" "b/q\\" b/x"\nold mode 100644\nnew mode 100755\n'
    )
    assert diff.path == 'q" b/x'


def _bomb() -> bytes:
    """Return a 2,000-byte patch that inflates to two million bytes, but declares a size of 1."""
    lines = write_literal(b"\0" * 2_000_000).split(b"\n", 1)[1]
    return (
        b"diff --git a/x b/x\nnew file mode 100644\nindex %b\nGIT binary patch\nliteral 1\n%b"
        % (
            _OIDS,
            lines,
        )
    )


def _cut_short() -> bytes:
    """Return a patch whose compressed data is complete except for its checksum."""
    packed = zlib.compress(b"\0bytes", 9)[:-3]
    line = bytes([ord("A") + len(packed) - 1]) + base64.b85encode(packed, pad=True)
    return (
        b"diff --git a/x b/x\nnew file mode 100644\nindex %b\nGIT binary patch\nliteral 6\n%b\n"
        % (
            _OIDS,
            line,
        )
    )


@pytest.mark.parametrize(
    ("diff", "message"), [(_bomb(), "its header says 1"), (_cut_short(), "cut short")]
)
def test_binary_sides_that_lie(diff: bytes, message: str) -> None:
    with pytest.raises(DiffError, match=message):
        parse_diff(diff)


def _delta(size: bytes, promised: bytes, operations: bytes) -> binary.Side:
    return binary.Side(size + promised + operations, True)


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        # This delta copies all 64 KiB ten thousand times, but declares a result of one byte.
        (_delta(b"\x80\x80\x04", b"\x01", b"\x80" * 10_000), "its header says 1"),
        (_delta(b"\x80\x80\x04", b"\xff" * 8 + b"\x01", b""), "over the limit"),
        (_delta(b"\x80" * 100_000, b"", b""), "a size that git does not write"),
        (_delta(b"\x80\x80\x04", b"\x05", b"\x05ab"), "its header says 5"),
    ],
)
def test_deltas_that_lie_take_little_memory(delta: binary.Side, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(binary.BinaryError, match=message):
            binary.apply_side(delta, b"x" * 0x10000)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("target", "leads_out"),
    [
        ("x", False),
        ("../x", False),
        ("./y/z", False),
        ("../../x", True),
        ("/x", True),
        ("../../../x", True),
        ("y/../../../x", True),
        ("d/../x", True),  # `d` may be a link to the root of the tree, so that `..` leaves it
    ],
)
def test_links(target: str, leads_out: bool) -> None:
    assert escapes("sub/link", target) is leads_out


def _link(path: bytes, target: bytes) -> bytes:
    return (
        b"diff --git a/%b b/%b\nnew file mode 120000\n--- /dev/null\n+++ b/%b\n"
        b"@@ -0,0 +1 @@\n+%b\n\\ No newline at end of file\n" % (path, path, path, target)
    )


def _new(path: bytes) -> bytes:
    return b"--- /dev/null\n+++ b/" + path + b"\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("diffs", "message"),
    [
        ([_link(b"up", b"../outside")], "leads out of the tree"),
        ([_link(b"up", b"sub"), _new(b"up/x")], "up/x: 'up' above it is a file or a link"),
        ([_new(b"up/x"), _link(b"up", b"sub")], "up/x: 'up' above it is a file or a link"),
        ([_new(b"file/x")], "file/x: 'file' above it is a file or a link"),
    ],
)
def test_nothing_is_written_through_a_link(
    tmp_path: Path, diffs: list[bytes], message: str
) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "file").write_text("x\n")
    series = load_series(_series(tmp_path / "patches", *diffs))
    with pytest.raises(ApplyError, match=message) as raised:
        apply_series(series, tree)
    _one_line(raised.value)
    assert sorted(path.name for path in tree.rglob("*")) == ["file", "sub"]


def test_a_name_with_control_characters_is_shown_as_one_line(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    name = b'"a/n\\n\\377\\033[2J"'
    diff = b"--- %b\n+++ %b\n@@ -1 +1 @@\n-a\n+b\n" % (name, name.replace(b"a/n", b"b/n"))
    with pytest.raises(ApplyError, match=r"no such file 'n\\n\\xff\\x1b\[2J'") as raised:
        apply_series(load_series(_series(tmp_path / "patches", diff)), tree)
    _one_line(raised.value)


def test_a_mail_ends_with_a_signature() -> None:
    assert parse_diff(_names(b"x") + b"-- \n2.39.5\n") == parse_diff(_names(b"x"))


def test_a_file_that_has_lines_is_not_deleted_without_them(tmp_path: Path) -> None:
    """As in git, a deletion without hunks applies only if the file is empty."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "x").write_text("wanted\n")
    diff = b"diff --git a/x b/x\ndeleted file mode 100644\n"
    series = load_series(_series(tmp_path / "patches", diff))
    with pytest.raises(ApplyError, match="deletes this file, but lines remain"):
        apply_series(series, tree)
    (tree / "x").write_text("")
    assert apply_series(series, tree) == ["x"]
    assert not list(tree.iterdir())


def _million() -> bytes:
    return _HEADER.rstrip() + b"\n" + b" more\n" * 1_000_000 + b"\n"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (_million, r"p0.patch:201: a header is 200 lines"),
        (lambda: b"Subject: " + b"x" * 5_000_000 + b"\n", r"p0.patch:1: a header is"),
        (lambda: b"Subject: a\x1b[2Jb\n", r"p0.patch:1: 'Subject: a\\x1b\[2Jb' has characters"),
        (lambda: b"Subject: a\xff\n", r"p0.patch:1: 'Subject: a\\xff' has characters"),
        (lambda: b"Nonsense\x85 without a colon\n", r"p0.patch:1: .* has characters"),
    ],
)
def test_hostile_headers(tmp_path: Path, header: Callable[[], bytes], message: str) -> None:
    with pytest.raises(SeriesError, match=message) as raised:
        load_series(_series(tmp_path, _names(b"x"), header=header()))
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_series_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "series").write_bytes(b"a.patch\n\xff\xfe\n")
    with pytest.raises(SeriesError, match="series: not UTF-8 at byte 8"):
        load_series(tmp_path)
    (tmp_path / "series").write_bytes(b"a\x1b[2J.patch\n")
    with pytest.raises(SeriesError, match=r"'a\\x1b\[2J.patch' is not a patch name"):
        load_series(tmp_path)


def test_a_header_with_carriage_returns_is_read() -> None:
    header = parse_header(_HEADER.decode().replace("\n", "\r\n"), "p")
    assert header["Owner"] == "packaging"


def test_a_million_hunks_stay_small() -> None:
    """Memory use depends on the size of the patch, not on the sizes declared in it."""
    program = (
        "from tools.importer.unified import parse_diff\n"
        "text = b'--- a/x\\n+++ b/x\\n' + b'@@ -1,0 +1 @@\\n+x\\n' * 100_000\n"
        "assert len(parse_diff(text)[0].hunks) == 100_000\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)),
    )
