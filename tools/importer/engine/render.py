# SPDX-License-Identifier: Apache-2.0
"""Write patch files deterministically, in the dialect that unified.py parses and git accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.importer.binary import write_literal
from tools.importer.engine.align import Change as LineChange
from tools.importer.engine.align import changes as line_changes
from tools.importer.engine.text import Text
from tools.importer.names import quote
from tools.importer.series import Patch
from tools.importer.snapshot import SYMLINK, Blob, blob_id

_NO_FILE = "0" * 40


@dataclass(frozen=True)
class Change:
    """A file before and after a change; None if absent. A rename has a different `new_path`."""

    path: str
    new_path: str
    before: Blob | None
    after: Blob | None


def render_patch(header: bytes, changes: Sequence[Change | bytes], *, context: int = 3) -> bytes:
    """Return a patch file: `header`, an empty line, and the diffs of `changes`, in order.

    A change given as bytes is a finished diff, and is copied verbatim. Unchanged files are omitted.
    The output depends only on the input: it has no timestamps, no section headings after the second
    `@@`, and no blob ids except for binary files and symlinks, which need them.
    """
    body = b"".join(
        change if isinstance(change, bytes) else _file(change, context) for change in changes
    )
    return header.rstrip(b"\n") + b"\n\n" + body


def header_of(data: bytes) -> bytes:
    """Return the part of a patch file before its diffs, without trailing empty lines."""
    lines = data.split(b"\n")
    for index, line in enumerate(lines):
        if line.startswith(b"diff --git ") or (
            line.startswith(b"--- ")
            and lines[index + 1 : index + 2]
            and lines[index + 1].startswith(b"+++ ")
        ):
            return b"\n".join(lines[:index]).rstrip(b"\n")
    return data.rstrip(b"\n")


def context_of(patch: Patch) -> int:
    """Return the number of context lines in a patch: the maximum at either end of any hunk."""
    sizes = [
        size
        for diff in patch.files
        for hunk in diff.hunks
        if hunk.edits
        for size in (hunk.edits[0].start, len(hunk.old) - hunk.edits[-1].stop)
    ]
    return max(sizes, default=3)


def _file(change: Change, context: int) -> bytes:
    before, after = change.before, change.after
    if before == after and change.path == change.new_path:
        return b""
    if before and after and SYMLINK in (before.mode, after.mode) and before.mode != after.mode:
        # git's diff format cannot express that a file becomes a symlink, so write a deletion and a
        # creation.
        gone = Change(change.path, change.path, before, None)
        return _file(gone, context) + _file(
            Change(change.new_path, change.new_path, None, after), context
        )
    old, new = quote(_name(b"a/", change.path)), quote(_name(b"b/", change.new_path))
    out = b"diff --git %s %s\n" % (old, new)
    if before is None:
        assert after is not None
        out += b"new file mode %s\n" % after.mode.encode()
    elif after is None:
        out += b"deleted file mode %s\n" % before.mode.encode()
    elif before.mode != after.mode:
        out += b"old mode %s\nnew mode %s\n" % (before.mode.encode(), after.mode.encode())
    if change.path != change.new_path:
        out += b"rename from %s\nrename to %s\n" % (
            quote(_name(b"", change.path)),
            quote(_name(b"", change.new_path)),
        )
    data, new_data = before.data if before else b"", after.data if after else b""
    if data == new_data:
        return out
    if b"\0" in data or b"\0" in new_data:
        return out + _binary(before, after)
    if before and after and before.mode == after.mode == SYMLINK:
        # A symlink's mode appears only on the index line, and strict parsers need the mode.
        out += b"index %s..%s %s\n" % (before.oid.encode(), after.oid.encode(), SYMLINK.encode())
    out += b"--- %s\n" % (old + _tab(old) if before else b"/dev/null")
    out += b"+++ %s\n" % (new + _tab(new) if after else b"/dev/null")
    return out + _hunks(Text.of(data), Text.of(new_data), context)


def _name(prefix: bytes, path: str) -> bytes:
    return prefix + path.encode("utf-8", "surrogateescape")


def _tab(name: bytes) -> bytes:
    """Return the tab that git appends to an unquoted file name with a space; empty for others."""
    return b"\t" if b" " in name and not name.startswith(b'"') else b""


def _binary(before: Blob | None, after: Blob | None) -> bytes:
    old = blob_id(before.data) if before else _NO_FILE
    new = blob_id(after.data) if after else _NO_FILE
    mode = b" " + after.mode.encode() if before and after and before.mode == after.mode else b""
    return (
        b"index %s..%s%s\nGIT binary patch\n" % (old.encode(), new.encode(), mode)
        + write_literal(after.data if after else b"")
        + write_literal(before.data if before else b"")
    )


def _hunks(before: Text, after: Text, context: int) -> bytes:
    out: list[bytes] = []
    group: list[LineChange] = []
    for change in line_changes(before.marks, after.marks):
        if group and change.start - group[-1].stop > 2 * context:
            out.append(_hunk(before, after, group, context))
            group = []
        group.append(change)
    if group:
        out.append(_hunk(before, after, group, context))
    return b"".join(out)


def _hunk(before: Text, after: Text, group: Sequence[LineChange], context: int) -> bytes:
    assert before.lines is not None
    assert after.lines is not None
    start = max(group[0].start - context, 0)
    stop = min(group[-1].stop + context, len(before.lines))
    new_start = group[0].new_start - (group[0].start - start)
    new_stop = group[-1].new_stop + (stop - group[-1].stop)
    out = [b"@@ -%s +%s @@\n" % (_range(start, stop), _range(new_start, new_stop))]
    position = start
    for change in group:
        out += [_line(b" ", line) for line in before.lines[position : change.start]]
        out += [_line(b"-", line) for line in before.lines[change.start : change.stop]]
        out += [_line(b"+", line) for line in after.lines[change.new_start : change.new_stop]]
        position = change.stop
    out += [_line(b" ", line) for line in before.lines[position:stop]]
    return b"".join(out)


def _range(start: int, stop: int) -> bytes:
    size = stop - start
    if size == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if size else start, size)


def _line(mark: bytes, line: bytes) -> bytes:
    if line.endswith(b"\n"):
        return mark + line
    return mark + line + b"\n\\ No newline at end of file\n"
