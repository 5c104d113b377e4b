# SPDX-License-Identifier: Apache-2.0
"""Read unified diffs, as bytes, into hunks.

Bytes, not text: upstream files may hold CRLF line ends, any encoding, or no newline at the end, and a
patch must say all of that exactly. The accepted dialect is what `git diff` writes for text files:
changed, added and deleted files. Renames, mode changes, binary hunks and quoted names are refused,
since nothing here would apply them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = b"\\ "
_REFUSED = (
    b"rename ",
    b"copy ",
    b"similarity ",
    b"old mode ",
    b"new mode ",
    b"GIT binary patch",
    b"Binary files ",
)


class DiffError(ValueError):
    """The patch text is not a diff that this reader accepts. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


@dataclass(frozen=True)
class Hunk:
    """One changed region. `old` and `new` hold whole lines with their line ends, `added` counts `+`.

    `old_start` counts from 1; it is 0 only where a file is created, and it names the line *before* the
    insertion where `old` is empty, as in every unified diff.
    """

    old_start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    added: int

    @property
    def old_index(self) -> int:
        """Position in the old file's list of lines, counted from 0."""
        return self.old_start - 1 if self.old else self.old_start


@dataclass(frozen=True)
class FileDiff:
    """The change of one file. `old_path` is None for a new file, `new_path` for a deleted one."""

    old_path: str | None
    new_path: str | None
    hunks: tuple[Hunk, ...]
    executable: bool = False

    @property
    def path(self) -> str:
        path = self.new_path or self.old_path
        assert path is not None
        return path


def parse_diff(data: bytes) -> tuple[FileDiff, ...]:
    """Parse a diff. Text before the first file is ignored. Raises DiffError."""
    return _Reader(data).files()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.lines = data.split(b"\n")
        if self.lines[-1] == b"":
            self.lines.pop()
        self.at = 0

    def files(self) -> tuple[FileDiff, ...]:
        found: list[FileDiff] = []
        executable = False
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith(_REFUSED):
                raise self.error(f"'{_text(line)}' is not supported; write it as text hunks")
            if line.startswith(b"diff --git "):
                executable = False
            elif line.startswith(b"new file mode "):
                executable = line.endswith(b"755")
            elif line.startswith(b"--- ") and self.peek(1).startswith(b"+++ "):
                found.append(self.file(executable))
                continue
            elif line.startswith(b"@@ "):
                raise self.error("a hunk before any '---' and '+++' pair")
            self.at += 1
        return tuple(found)

    def file(self, executable: bool) -> FileDiff:
        old, new = self.path(b"a/"), self.path(b"b/")
        if old is None and new is None:
            raise self.error("both sides are /dev/null")
        if old is not None and new is not None and old != new:
            raise self.error(f"'{old}' becomes '{new}': renames are not supported")
        hunks: list[Hunk] = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(b"@@ "):
            hunks.append(self.hunk())
        if not hunks:
            raise self.error(f"no hunk for '{new or old}'")
        return FileDiff(old, new, tuple(hunks), executable)

    def path(self, prefix: bytes) -> str | None:
        name = self.lines[self.at][4:].split(b"\t", 1)[0]
        self.at += 1
        if name == b"/dev/null":
            return None
        if not name.startswith(prefix):
            raise self.error(f"'{_text(name)}' must start with '{_text(prefix)}'", back=1)
        path = name[len(prefix) :].decode("utf-8", "replace")
        parts = path.split("/")
        if not all(parts) or ".." in parts or "." in parts or "\\" in path:
            raise self.error(f"'{path}' is not a plain path below the tree", back=1)
        return path

    def hunk(self) -> Hunk:
        head = _HUNK.match(self.lines[self.at])
        if head is None:
            raise self.error(f"'{_text(self.lines[self.at])}' is not a hunk header")
        start = self.at
        old_left, new_left = (int(head[n]) if head[n] is not None else 1 for n in (2, 4))
        self.at += 1
        old: list[bytes] = []
        new: list[bytes] = []
        added = 0
        while old_left or new_left or self.peek().startswith(_NO_NEWLINE):
            if self.at >= len(self.lines):
                raise self.error("the hunk ends before the line counts of its header", at=start)
            line = self.lines[self.at]
            mark, body = line[:1], line[1:] + b"\n"
            if line.startswith(_NO_NEWLINE):
                self.drop_newline(old, new)
            elif mark in (b" ", b"") and old_left and new_left:  # editors strip a lone space
                old.append(body)
                new.append(body)
                old_left, new_left = old_left - 1, new_left - 1
            elif mark == b"-" and old_left:
                old.append(body)
                old_left -= 1
            elif mark == b"+" and new_left:
                new.append(body)
                new_left, added = new_left - 1, added + 1
            else:
                raise self.error("the hunk disagrees with the line counts of its header", at=start)
            self.at += 1
        return Hunk(int(head[1]), tuple(old), tuple(new), added)

    def drop_newline(self, old: list[bytes], new: list[bytes]) -> None:
        mark = self.lines[self.at - 1][:1]
        sides = {b"-": (old,), b"+": (new,), b" ": (old, new)}.get(mark, ())
        if not sides:
            raise self.error("'\\ No newline' follows no line")
        for side in sides:
            side[-1] = side[-1][:-1]

    def peek(self, ahead: int = 0) -> bytes:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else b""

    def error(self, message: str, *, back: int = 0, at: int | None = None) -> DiffError:
        return DiffError((self.at if at is None else at) - back + 1, message)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
