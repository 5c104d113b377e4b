# SPDX-License-Identifier: Apache-2.0
"""Parse unified diffs.

Diffs are bytes, not text, because upstream files may have CRLF line endings, any encoding, or no
final newline, and a patch must reproduce all of this exactly. The dialect is git's: changed, added,
deleted and renamed files, modes, symlinks, binary files and quoted names. Copies are rejected; a
patch must add the copy as a new file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tools.importer.binary import Binary, BinaryError, read_binary
from tools.importer.errors import UserError
from tools.importer.names import NameProblem, plain_path, shown, unquote
from tools.importer.snapshot import EXECUTABLE, MODES, REGULAR

_HUNK = re.compile(rb"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)$")
_INDEX = re.compile(rb"^index ([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})(?: (\d{6}))?$")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_NEWLINE = b"\\ "
_MARKS = (b" ", b"+", b"-")
_SIGNATURE = b"-- "  # the line after the diff in a mail from `git format-patch`
_BINARY = b"GIT binary patch"


class DiffError(UserError):
    """An invalid or unsupported diff. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


@dataclass(frozen=True)
class Edit:
    """A run of changed lines in a hunk: `old[start:stop]` becomes `new[new_start:new_stop]`."""

    start: int
    stop: int
    new_start: int
    new_stop: int


@dataclass(frozen=True)
class Hunk:
    """A hunk. `old` and `new` hold its lines with their endings; `added` counts the `+` lines.

    `old_start` counts from 1. If `old` is empty, `old_start` is the line *before* the insertion, as
    in every unified diff, and thus 0 for a new file. `edits` lists the changes inside the hunk, and
    `section` is the text after the second `@@`.
    """

    old_start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    added: int
    edits: tuple[Edit, ...] = ()
    section: bytes = b""

    @property
    def old_index(self) -> int:
        """The index of the first old line, counted from 0."""
        return self.old_start - 1 if self.old else self.old_start


@dataclass(frozen=True)
class FileDiff:
    """The diff of one file. `old_path` is None for a new file, `new_path` for a deleted one.

    A mode is None if the diff does not state it. For a binary file, `binary` is set and `hunks` is
    empty. `span` is the half-open range of the diff's lines in the patch file, counted from 0.
    """

    old_path: str | None
    new_path: str | None
    hunks: tuple[Hunk, ...]
    old_mode: str | None = None
    new_mode: str | None = None
    binary: Binary | None = None
    span: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def path(self) -> str:
        path = self.new_path or self.old_path
        assert path is not None
        return path

    @property
    def paths(self) -> tuple[str, ...]:
        """The old and new paths, without None and without duplicates."""
        return tuple(dict.fromkeys(path for path in (self.old_path, self.new_path) if path))

    @property
    def executable(self) -> bool:
        return self.new_mode == EXECUTABLE


def parse_diff(data: bytes) -> tuple[FileDiff, ...]:
    """Parse a diff, ignoring text before the first file. Raises DiffError if it is invalid."""
    return _Reader(data).files()


@dataclass
class _Header:
    """The parsed `diff --git` line of a file, and the extended header lines after it."""

    line: int
    paths: tuple[str, str] | None = None
    old_mode: str | None = None
    new_mode: str | None = None
    rename_from: str | None = None
    rename_to: str | None = None
    created: bool = False
    deleted: bool = False
    index: tuple[str, str] | None = None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.lines = data.split(b"\n")
        self.cut = bool(self.lines[-1])  # true if the last line does not end with a newline
        if not self.cut:
            self.lines.pop()
        self.position = 0

    def files(self) -> tuple[FileDiff, ...]:
        diffs: list[FileDiff] = []
        while self.position < len(self.lines):
            line, start = self.lines[self.position], self.position
            if line.startswith(b"diff --git "):
                diffs.append(replace(self.git_file(), span=(start, self.position)))
            elif self.at_pair():
                diff = self.text_file(_Header(self.position))
                diffs.append(replace(diff, span=(start, self.position)))
            elif line.startswith(b"@@ "):
                raise self.error("a hunk before any '---' and '+++' pair")
            elif line == _BINARY or line.startswith(b"Binary files "):
                raise self.error("a binary change before any 'diff --git' line")
            else:
                self.position += 1
        complete = not self.cut or self.lines[-1].startswith(_NO_NEWLINE)
        if not complete and diffs and diffs[-1].span[1] == len(self.lines):
            raise self.error("the diff ends within a line: a part of it is missing", back=1)
        return tuple(diffs)

    def at_pair(self) -> bool:
        return self.peek().startswith(b"--- ") and self.peek(1).startswith(b"+++ ")

    def git_file(self) -> FileDiff:
        head = _Header(self.position, self.git_paths())
        self.position += 1
        while self.position < len(self.lines) and self.extended(head):
            self.position += 1
        self.check_header(head)
        if self.at_pair():
            return self.text_file(head)
        if self.peek() == _BINARY:
            return self.binary_file(head)
        if self.peek().startswith(b"Binary files "):
            raise self.error("a binary change without its bytes; make it with `git diff --binary`")
        return self.headers_only(head)

    def check_header(self, head: _Header) -> None:
        """Raise DiffError if extended header lines contradict each other."""
        renames = (head.rename_from is not None) + (head.rename_to is not None)
        if renames == 1:
            raise self.error("'rename from' and 'rename to' belong together", index=head.line)
        if renames + head.created + head.deleted > (2 if renames else 1):
            raise self.error(
                "a file is created, deleted or renamed: only one of the three", index=head.line
            )
        if not renames and head.paths is None:
            raise self.error(
                "the two names on this line differ and no rename is stated", index=head.line
            )

    def extended(self, head: _Header) -> bool:
        """Parse one extended header line. Return False if the line is not one."""
        key, _, rest = self.lines[self.position].partition(b" ")
        line = self.lines[self.position]
        if line.startswith((b"old mode ", b"deleted file mode ")):
            head.old_mode = self.mode(line)
            head.deleted = key == b"deleted"
        elif line.startswith((b"new mode ", b"new file mode ")):
            head.new_mode = self.mode(line)
            head.created = line.startswith(b"new file ")
        elif line.startswith(b"rename from "):
            head.rename_from = self.plain(self.unquoted(line[12:]))
        elif line.startswith(b"rename to "):
            head.rename_to = self.plain(self.unquoted(line[10:]))
        elif key == b"copy":
            raise self.error(f"'{shown(line)}' is not supported; write the copy as a new file")
        elif key == b"index":
            match = _INDEX.match(line)
            if match is None:
                raise self.error(f"'{shown(line)}' is not an index line")
            head.index = match[1].decode(), match[2].decode()
            if match[3]:
                mode = self.checked_mode(match[3].decode())
                if {head.old_mode, head.new_mode} - {None, mode}:
                    raise self.error(f"mode {mode} is not what the lines above it say")
                head.old_mode = head.new_mode = mode
        elif key not in (b"similarity", b"dissimilarity") or not rest:
            return False
        return True

    def mode(self, line: bytes) -> str:
        return self.checked_mode(line.rsplit(b" ", 1)[1].decode("ascii", "replace"))

    def checked_mode(self, mode: str) -> str:
        if mode == "100664":  # old versions of git wrote this for a regular file
            return REGULAR
        if mode not in MODES:
            raise self.error(f"mode {shown(mode)} is not one of {', '.join(MODES)}")
        return mode

    def git_paths(self) -> tuple[str, str] | None:
        """Return both paths of a `diff --git` line if they are equal, else None.

        If they differ, the file is renamed, and the rename lines state the paths.
        """
        rest = self.lines[self.position][len(b"diff --git ") :]
        quoted = _QUOTED.match(rest)
        if quoted is not None:
            old, new = self.unquoted(quoted[0]), self.unquoted(rest[quoted.end() + 1 :])
        else:
            half = len(rest) // 2
            old, new = rest[:half], rest[half + 1 :]
        if old[:2] != b"a/" or new[:2] != b"b/" or old[2:] != new[2:]:
            return None
        return self.plain(old[2:]), self.plain(new[2:])

    def text_file(self, head: _Header) -> FileDiff:
        old, new = self.path(b"a/"), self.path(b"b/")
        if old is None and new is None:
            raise self.error("both sides are /dev/null")
        renamed = head.rename_from is not None and head.rename_to is not None
        if old is not None and new is not None and old != new and not renamed:
            raise self.error(
                f"'{shown(old)}' becomes '{shown(new)}' without 'rename from' and 'rename to' lines"
            )
        if renamed and (old, new) != (head.rename_from, head.rename_to):
            raise self.error("the rename lines and the '---' and '+++' lines name different files")
        if head.paths is not None:
            if (old is None) != head.created:
                raise self.error("'new file mode' and '--- /dev/null' belong together")
            if (new is None) != head.deleted:
                raise self.error("'deleted file mode' and '+++ /dev/null' belong together")
            if not {old, new} <= {*head.paths, None}:
                raise self.error(f"'{shown(new or old or '')}' is not what 'diff --git' names")
        hunks: list[Hunk] = []
        while self.position < len(self.lines) and self.lines[self.position].startswith(b"@@ "):
            hunks.append(self.hunk())
        if not hunks:
            raise self.error(f"no hunk for '{shown(new or old or '')}'")
        rest = self.peek()
        if rest[:1] in _MARKS and rest != _SIGNATURE and not self.at_pair():
            raise self.error("the hunk continues after the line counts of its header")
        return FileDiff(old, new, tuple(hunks), head.old_mode, head.new_mode)

    def binary_file(self, head: _Header) -> FileDiff:
        old, new = self.header_paths(head)
        if head.index is None or len(head.index[0]) != 40 or len(head.index[1]) != 40:
            raise self.error("a binary change needs an index line with full ids")
        self.position += 1
        try:
            binary, self.position = read_binary(self.lines, self.position, *head.index)
        except BinaryError as error:
            raise self.error(str(error)) from None
        return FileDiff(old, new, (), head.old_mode, head.new_mode, binary)

    def headers_only(self, head: _Header) -> FileDiff:
        """Parse a diff without hunks: a rename, a mode change, or a new or deleted empty file."""
        old, new = self.header_paths(head)
        moved = old != new or head.old_mode != head.new_mode
        if not moved:
            raise self.error(f"no hunk for '{shown(new or old or '')}'", index=head.line)
        if self.peek()[:1] in _MARKS and self.peek() != _SIGNATURE:
            raise self.error("changed lines without '---', '+++' and a hunk")
        return FileDiff(old, new, (), head.old_mode, head.new_mode)

    def header_paths(self, head: _Header) -> tuple[str | None, str | None]:
        if head.rename_from is not None and head.rename_to is not None:
            return head.rename_from, head.rename_to
        assert head.paths is not None
        old, new = head.paths
        return None if head.created else old, None if head.deleted else new

    def path(self, prefix: bytes) -> str | None:
        name = self.unquoted(self.lines[self.position][4:].split(b"\t", 1)[0])
        self.position += 1
        if name == b"/dev/null":
            return None
        if not name.startswith(prefix):
            raise self.error(f"'{shown(name)}' must start with '{shown(prefix)}'", back=1)
        return self.plain(name[len(prefix) :], back=1)

    def unquoted(self, name: bytes) -> bytes:
        try:
            return unquote(name)
        except NameProblem as error:
            raise self.error(str(error)) from None

    def plain(self, name: bytes, *, back: int = 0) -> str:
        try:
            return plain_path(name)
        except NameProblem as error:
            raise self.error(str(error), back=back) from None

    def hunk(self) -> Hunk:
        head = _HUNK.match(self.lines[self.position])
        if head is None:
            raise self.error(f"'{shown(self.lines[self.position])}' is not a hunk header")
        start = self.position
        old_left, new_left = (int(head[n]) if head[n] is not None else 1 for n in (2, 4))
        self.position += 1
        old: list[bytes] = []
        new: list[bytes] = []
        edits: list[Edit] = []
        since: tuple[int, int] | None = None  # the start of the current run of changes
        added = 0
        while old_left or new_left or self.peek().startswith(_NO_NEWLINE):
            if self.position >= len(self.lines):
                raise self.error("the hunk ends before the line counts of its header", index=start)
            line = self.lines[self.position]
            mark, body = line[:1], line[1:] + b"\n"
            if line.startswith(_NO_NEWLINE):
                self.drop_newline(old, new)
            elif (mark == b" " or line in (b"", b"\r")) and old_left and new_left:
                if mark != b" ":  # an editor stripped the space of an empty context line
                    body = line + b"\n"
                if since is not None:
                    edits.append(Edit(since[0], len(old), since[1], len(new)))
                    since = None
                old.append(body)
                new.append(body)
                old_left, new_left = old_left - 1, new_left - 1
            elif mark == b"-" and old_left:
                since = since or (len(old), len(new))
                old.append(body)
                old_left -= 1
            elif mark == b"+" and new_left:
                since = since or (len(old), len(new))
                new.append(body)
                new_left, added = new_left - 1, added + 1
            else:
                raise self.error(
                    "the hunk disagrees with the line counts of its header", index=start
                )
            self.position += 1
        if since is not None:
            edits.append(Edit(since[0], len(old), since[1], len(new)))
        if any(not line.endswith(b"\n") for side in (old, new) for line in side[:-1]):
            raise self.error("'\\ No newline' precedes the last line of its side", index=start)
        return Hunk(int(head[1]), tuple(old), tuple(new), added, tuple(edits), head[5])

    def drop_newline(self, old: list[bytes], new: list[bytes]) -> None:
        mark = self.lines[self.position - 1][:1]
        sides = {b"-": (old,), b"+": (new,), b" ": (old, new)}.get(mark, ())
        if not sides:
            raise self.error("'\\ No newline' follows no line")
        for side in sides:
            side[-1] = side[-1][:-1]

    def peek(self, ahead: int = 0) -> bytes:
        return self.lines[self.position + ahead] if self.position + ahead < len(self.lines) else b""

    def error(self, message: str, *, back: int = 0, index: int | None = None) -> DiffError:
        return DiffError((self.position if index is None else index) - back + 1, message)
