# SPDX-License-Identifier: Apache-2.0
"""Apply a series strictly: exact context at the exact line, or nothing at all.

No fuzz and no offset: a hunk that fits somewhere else may fit in the wrong place, and nothing would
say so. The whole series is worked out in memory first; files are written only when every hunk fits,
each through a temporary file and a rename.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.importer.series import Patch, Series
from tools.importer.unified import FileDiff, Hunk


class ApplyError(ValueError):
    """A patch that does not fit. One line: patch, file, hunk, what was found, what to do."""


@dataclass(frozen=True)
class FileContent:
    """Bytes and the executable bit of one file."""

    data: bytes
    executable: bool


def apply_series(series: Series, tree: Path) -> list[str]:
    """Patch `tree` in place and return the changed paths, sorted. All or nothing until writing."""
    changed = patched_files(series, tree)
    for path, data in changed.items():
        target = tree / path
        if data is None:
            target.unlink()
        else:
            _write(target, data)
    return sorted(changed)


def patched_files(series: Series, tree: Path) -> dict[str, FileContent | None]:
    """Return the new content of every file that the series touches; None where it deletes one."""
    work: dict[str, FileContent | None] = {}
    for patch in series.patches:
        for diff in patch.files:
            if diff.path not in work:
                work[diff.path] = _read(tree, diff.path, patch)
            work[diff.path] = _apply_file(patch, diff, work[diff.path])
    return {path: work[path] for path in sorted(work)}


def apply_hunks(data: bytes, hunks: tuple[Hunk, ...]) -> bytes:
    """Apply the hunks of one file to its bytes. Raises ApplyError, which names the hunk."""
    lines = _split(data)
    out: list[bytes] = []
    done = 0
    for number, hunk in enumerate(hunks, start=1):
        start = hunk.old_index
        if start < done:
            raise ApplyError(
                f"hunk {number}: starts at line {hunk.old_start}, inside the hunk before it"
            )
        _check_context(lines, hunk, number)
        out += lines[done:start]
        done = start + len(hunk.old)
        if hunk.new and (_open_ended(out) or (done < len(lines) and _open_ended(hunk.new))):
            raise ApplyError(f"hunk {number}: a line without a newline would not be the last one")
        out += hunk.new
    return b"".join(out + lines[done:])


def _apply_file(patch: Patch, diff: FileDiff, before: FileContent | None) -> FileContent | None:
    where = f"{patch.name}: {diff.path}"
    fix = "Refresh the patch against this tree, or drop it if upstream took it"
    if diff.old_path is None and before is not None:
        raise ApplyError(f"{where}: the patch creates this file, but it exists. {fix}")
    if diff.old_path is not None and before is None:
        raise ApplyError(f"{where}: no such file in the tree. {fix}")
    try:
        data = apply_hunks(before.data if before else b"", diff.hunks)
    except ApplyError as error:
        raise ApplyError(f"{where}: {error}. {fix}") from None
    if diff.new_path is None:
        if data:
            raise ApplyError(f"{where}: the patch deletes this file, but lines remain. {fix}")
        return None
    return FileContent(data, before.executable if before else diff.executable)


def _check_context(lines: list[bytes], hunk: Hunk, number: int) -> None:
    start = hunk.old_index
    for offset, want in enumerate(hunk.old):
        at = start + offset
        found = lines[at] if at < len(lines) else None
        if found == want:
            continue
        what = f"found {_show(found)}" if found is not None else "found the end of the file"
        elsewhere = _positions(lines, hunk.old)
        note = f" (the same lines are at {_join(elsewhere)})" if elsewhere else ""
        raise ApplyError(f"hunk {number}: line {at + 1} should be {_show(want)}, {what}{note}")
    if start > len(lines):
        raise ApplyError(f"hunk {number}: line {start} is past the end of the file")


def _open_ended(lines: Sequence[bytes]) -> bool:
    return bool(lines) and not lines[-1].endswith(b"\n")


def _positions(lines: list[bytes], block: tuple[bytes, ...]) -> list[int]:
    size = len(block)
    last = len(lines) - size
    return [at + 1 for at in range(last + 1) if tuple(lines[at : at + size]) == block][:3]


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    tail = lines.pop()
    return [line + b"\n" for line in lines] + ([tail] if tail else [])


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    suffix = "" if text.endswith("\n") else " without a newline"
    text = text.rstrip("\n")
    return f"{text[:60]!r}{'...' if len(text) > 60 else ''}{suffix}"


def _join(numbers: list[int]) -> str:
    return "line " + ", ".join(map(str, numbers))


def _read(tree: Path, path: str, patch: Patch) -> FileContent | None:
    target = tree / path
    for part in (target, *target.parents):
        if part == tree:
            break
        if part.is_symlink():
            raise ApplyError(
                f"{patch.name}: {path}: '{part.relative_to(tree)}' is a symlink in the tree. "
                "Patch the file that it names"
            )
    if not target.exists():
        return None
    if not target.is_file():
        raise ApplyError(f"{patch.name}: {path}: a directory in the tree. Fix the patch's path")
    return FileContent(target.read_bytes(), os.access(target, os.X_OK))


def _write(target: Path, content: FileContent) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".patch-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content.data)
        os.chmod(name, 0o755 if content.executable else 0o644)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
