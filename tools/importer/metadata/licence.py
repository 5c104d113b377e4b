# SPDX-License-Identifier: Apache-2.0
"""Detect changes to upstream's licence, which stop the import until the user has read the text.

Licence texts are compared by the sha256 of their words, so changes to whitespace are ignored, but a
new copyright year is not. Only the hash of each text is stored, in licence.json next to METADATA.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.metadata.vendored import read_json
from tools.importer.project import Licence, Project
from tools.importer.selection import whole
from tools.importer.snapshot import SYMLINK, Snapshot

ACKNOWLEDGE = "--acknowledge-licence"

_MOST_LINKS = 8
_MOST_LETTERS = 100
_MARK = b"\xef\xbb\xbf"  # the byte order mark, which some editors write


@dataclass(frozen=True)
class LicenceRecord:
    """The licence files' hashes, keyed by path. `changes` lists messages, and is not stored."""

    digests: Mapping[str, str]
    changes: tuple[str, ...] = field(default=(), compare=False)

    def dumps(self) -> bytes:
        """Return the record as JSON. The output is deterministic."""
        document = {"sha256_of_words": dict(self.digests)}
        return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def check_licence(
    old: Snapshot | None,
    new: Snapshot,
    *,
    recorded: LicenceRecord | None,
    acknowledged: bool,
    paths: Sequence[str] = Licence().files,
) -> LicenceRecord:
    """Return the licence record of `new`. Raises UserError if a changed text is not acknowledged.

    `old` is the project's current tree, if available. It stands in for a missing record, and error
    messages show how `new` differs from it. If the origin of `new` never contains a licence file,
    that file's record is kept. A file that no earlier origin could contain is recorded, and
    reported as new. `paths` are the paths of the licence files in upstream's repository, even if an
    origin, such as a Debian source package, has them elsewhere.
    """
    old, new = whole(old) if old else None, whole(new)
    digests = dict(recorded.digests) if recorded else {}
    changes = []
    for path in paths:
        if not _carries(new, path):
            continue
        before, after = _text(old, path), _text(new, path)
        known = digests.get(path) or (words_digest(before) if before is not None else None)
        digest = words_digest(after) if after is not None else None
        first_sight = known is None and (old is None or not _carries(old, path))
        if digest != known and not first_sight:
            change = _change(path, before, after, known, old, new)
            if not acknowledged:
                raise UserError(
                    f"{change}. Read it, correct license_type and license_note in METADATA if they "
                    f"changed, then run again with {ACKNOWLEDGE}"
                )
            changes.append(f"{change}: acknowledged")
        elif digest != known:
            changes.append(f"{path}: first seen in {new.label}, recorded")
        digests.pop(path, None)
        if digest is not None:
            digests[path] = digest
    return LicenceRecord(digests, tuple(changes))


def licence_file(project: Project) -> Path:
    """Return the path of a project's licence record."""
    return project.metadata.parent / "licence.json"


def load_record(project: Project) -> LicenceRecord | None:
    """Return a project's licence record; None before its first import.

    Raises UserError if the record is corrupt.
    """
    file = licence_file(project)
    if not file.exists():
        return None
    digests = read_json(file).get("sha256_of_words")
    if not isinstance(digests, dict):
        raise UserError(f"{file}: no object 'sha256_of_words'. Restore the file from git")
    return LicenceRecord(digests)


def words_digest(text: bytes) -> str:
    """Return the sha256 of the words of a text, joined by single spaces."""
    return hashlib.sha256(b" ".join(text.removeprefix(_MARK).split())).hexdigest()


def _text(snapshot: Snapshot | None, path: str) -> bytes | None:
    """Return a file's bytes, following symlinks; None if the file does not exist."""
    path = _place(snapshot, path) if snapshot else path
    for _ in range(_MOST_LINKS):
        blob = snapshot.read(path) if snapshot else None
        if blob is None or blob.mode != SYMLINK:
            return blob.data if blob else None
        target = blob.data.decode("utf-8", "replace")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return None


def _place(snapshot: Snapshot, path: str) -> str:
    """Return the path of a licence file, which in a wheel is under .dist-info."""
    if snapshot.read(path) is None:
        pattern = re.compile(rf"[^/]+\.dist-info/(licenses/)?{re.escape(path)}")
        return next((each for each in sorted(snapshot.paths()) if pattern.fullmatch(each)), path)
    return path


def _carries(snapshot: Snapshot, path: str) -> bool:
    return snapshot.carries(path) or snapshot.read(_place(snapshot, path)) is not None


def _change(
    path: str,
    before: bytes | None,
    after: bytes | None,
    known: str | None,
    old: Snapshot | None,
    new: Snapshot,
) -> str:
    if after is None:
        return f"{path}: {new.label} has no such file any more"
    if known is None:
        return f"{path}: new in {new.label}, it begins {_quote(_lines(after)[:1])}"
    # Show the old text only if it matches the recorded hash.
    if old is None or before is None or words_digest(before) != known:
        return (
            f"{path}: {new.label} has another licence text than the recorded one "
            f"(sha256 of its words {words_digest(after)[:12]}, recorded {known[:12]})"
        )
    return f"{path}: the licence text changed from {old.label} to {new.label}: " + _first_change(
        _lines(before), _lines(after)
    )


def _first_change(before: list[bytes], after: list[bytes]) -> str:
    """Describe the first changed lines and the size of the whole change."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    edits = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    _, start, end, new_start, new_end = edits[0]  # there is an edit, because the words differ
    gone = sum(edit[2] - edit[1] for edit in edits)
    come = sum(edit[4] - edit[3] for edit in edits)
    shown = f"{_quote(before[start:end])} -> {_quote(after[new_start:new_end])}"
    return f"line {new_start + 1}: {shown} (in all -{gone} +{come} lines)"


def _lines(text: bytes) -> list[bytes]:
    """Return the lines with whitespace normalized."""
    return [b" ".join(line.split()) for line in text.removeprefix(_MARK).split(b"\n")]


def _quote(lines: list[bytes]) -> str:
    text = b" / ".join(line for line in lines if line).decode("utf-8", "backslashreplace")
    if not text:
        return "nothing"
    shown = text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."
    # Escape control characters, because upstream's text is printed to a terminal.
    return '"' + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown) + '"'
