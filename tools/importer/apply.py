# SPDX-License-Identifier: Apache-2.0
"""Apply a patch series strictly: exact context at the exact line, or nothing at all.

Fuzz and offsets are not supported, because a hunk that matches elsewhere could silently change the
wrong place. The whole series is applied in memory first. Files are written only if every hunk
applies, each to a temporary file that is then renamed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from tools.importer.binary import BinaryError, apply_side
from tools.importer.errors import UserError
from tools.importer.names import escapes, shown
from tools.importer.series import Patch, Series
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, Blob
from tools.importer.unified import FileDiff, Hunk

Read = Callable[[str], "Blob | None"]  # Python 3.9 cannot evaluate this without quotes

_FIX = "Refresh the patch against this tree, or drop it if upstream took it"


class ApplyError(UserError):
    """The error raised if a patch does not apply. The message says where and why."""


def apply_series(series: Series, tree: Path, *, absent: Collection[str] = ()) -> list[str]:
    """Patch `tree` in place and return the changed paths, sorted.

    No file is written unless all hunks apply. Changes to `absent` paths are skipped. The tree's
    origin never contains these paths: a wheel, for example, has no C++ sources.
    """
    changed = patched_files(series, tree, absent=absent)
    for path, blob in changed.items():
        target = tree / path
        if blob is None:
            target.unlink(missing_ok=True)
        else:
            _write(target, blob)
    return sorted(changed)


def patched_files(
    series: Series, tree: Path, *, absent: Collection[str] = ()
) -> dict[str, Blob | None]:
    """Return the new content of every file that the patches touch; None for a deleted file."""
    work: dict[str, Blob | None] = {}
    for patch in series.patches:

        def read(path: str, patch: Patch = patch) -> Blob | None:
            return _read(tree, path, patch)

        apply_patch(patch, work, read, absent=absent)
    check_parents(work, lambda path: (tree / path).is_file())
    return {path: work[path] for path in sorted(work)}


def apply_patch(
    patch: Patch, work: dict[str, Blob | None], read: Read, *, absent: Collection[str] = ()
) -> None:
    """Apply one patch to `work`, the files touched so far. `read` returns any other file.

    Changes to `absent` paths, which the tree's origin never contains, are skipped.
    """
    for diff in patch.files:
        if any(path in absent for path in diff.paths):
            continue
        for path in diff.paths:
            if path not in work:
                work[path] = read(path)
        work.update(apply_diff(patch.name, diff, work))


def check_parents(work: Mapping[str, Blob | None], has_file: Callable[[str], bool]) -> None:
    """Raise ApplyError if a path's parent is a file or a symlink.

    Writing through a symlink could write outside the tree. `has_file` returns whether the unpatched
    tree contains a path.
    """
    for path, blob in work.items():
        parts = path.split("/") if blob is not None else []
        for size in range(1, len(parts)):
            parent = "/".join(parts[:size])
            if work[parent] is not None if parent in work else has_file(parent):
                raise ApplyError(
                    f"{shown(path)}: '{shown(parent)}' above it is a file or a link. "
                    "Fix the patch that creates one of the two"
                )


def apply_diff(
    name: str, diff: FileDiff, files: Mapping[str, Blob | None]
) -> dict[str, Blob | None]:
    """Return the new contents of the files that `diff` changes, given the old contents `files`."""
    where = f"{name}: {shown(diff.path)}"
    before = files[diff.old_path] if diff.old_path is not None else None
    _check_presence(where, diff, files)
    mode = _mode(where, diff, before)
    try:
        data = _content(diff, before)
    except (ApplyError, BinaryError) as error:
        raise ApplyError(f"{where}: {error}. {_FIX}") from None
    if diff.new_path is None:
        assert diff.old_path is not None
        if data:
            raise ApplyError(f"{where}: the patch deletes this file, but lines remain. {_FIX}")
        return {diff.old_path: None}
    blob = Blob(data, mode)
    if blob.mode == SYMLINK and escapes(diff.new_path, os.fsdecode(data)):
        raise ApplyError(
            f"{where}: a symlink to '{shown(data)}' leads out of the tree. "
            "Change its target to a path inside the tree, relative to the link"
        )
    if diff.old_path not in (None, diff.new_path):
        return {str(diff.old_path): None, diff.new_path: blob}
    return {diff.new_path: blob}


def apply_hunks(data: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Apply the hunks of one file to its bytes. Raises an ApplyError naming a failed hunk."""
    return b"".join(apply_to_lines(split_lines(data), hunks))


def apply_to_lines(lines: list[bytes], hunks: Sequence[Hunk]) -> list[bytes]:
    """Apply the hunks of one file to its lines. Raises an ApplyError naming a failed hunk."""
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
    return out + lines[done:]


def split_lines(data: bytes) -> list[bytes]:
    """Split `data` after each newline. The last line may lack one."""
    lines = data.split(b"\n")
    tail = lines.pop()
    return [line + b"\n" for line in lines] + ([tail] if tail else [])


def _check_presence(where: str, diff: FileDiff, files: Mapping[str, Blob | None]) -> None:
    if diff.old_path is not None and files[diff.old_path] is None:
        raise ApplyError(f"{where}: no such file '{shown(diff.old_path)}' in the tree. {_FIX}")
    if diff.new_path not in (None, diff.old_path) and files[str(diff.new_path)] is not None:
        verb = "creates" if diff.old_path is None else "moves a file to"
        raise ApplyError(f"{where}: the patch {verb} this file, but it exists. {_FIX}")


def _content(diff: FileDiff, before: Blob | None) -> bytes:
    data = before.data if before else b""
    if diff.binary is None:
        return apply_hunks(data, diff.hunks)
    old, new = diff.binary.old_oid, diff.binary.new_oid
    if before is not None and before.oid != old:
        raise ApplyError(f"the file's id is {before.oid}, the binary change is for {old}")
    result = apply_side(diff.binary.forward, data)
    if diff.new_path is not None and Blob(result).oid != new:
        raise ApplyError(f"the binary change gives {Blob(result).oid}, not the stated {new}")
    return result


def _mode(where: str, diff: FileDiff, before: Blob | None) -> str:
    if before is None:
        return diff.new_mode or REGULAR
    if diff.old_mode is not None and diff.old_mode != before.mode:
        raise ApplyError(
            f"{where}: the file's mode is {before.mode}, the patch is for {diff.old_mode}. {_FIX}"
        )
    if before.mode == SYMLINK and diff.old_mode is None and (diff.hunks or diff.new_mode):
        raise ApplyError(
            f"{where}: '{shown(diff.path)}' is a symlink in the tree. Patch the file it names"
        )
    return diff.new_mode or before.mode


def _check_context(lines: list[bytes], hunk: Hunk, number: int) -> None:
    start = hunk.old_index
    for offset, want in enumerate(hunk.old):
        index = start + offset
        line = lines[index] if index < len(lines) else None
        if line == want:
            continue
        actual = f"found {_show(line)}" if line is not None else "found the end of the file"
        elsewhere = _positions(lines, hunk.old)
        note = f" (the same lines are at {_join(elsewhere)})" if elsewhere else ""
        raise ApplyError(f"hunk {number}: line {index + 1} should be {_show(want)}, {actual}{note}")
    if start > len(lines):
        raise ApplyError(f"hunk {number}: line {start} is past the end of the file")


def _open_ended(lines: Sequence[bytes]) -> bool:
    return bool(lines) and not lines[-1].endswith(b"\n")


def _positions(lines: list[bytes], block: tuple[bytes, ...]) -> list[int]:
    size = len(block)
    last = len(lines) - size
    return [line + 1 for line in range(last + 1) if tuple(lines[line : line + size]) == block][:3]


def _show(line: bytes) -> str:
    text = line[:400].decode("utf-8", "replace")
    suffix = "" if line.endswith(b"\n") else " without a newline"
    text = text.rstrip("\n")
    return f"{text[:60]!r}{'...' if len(text) > 60 else ''}{suffix}"


def _join(numbers: list[int]) -> str:
    return "line " + ", ".join(map(str, numbers))


def _read(tree: Path, path: str, patch: Patch) -> Blob | None:
    target = tree / path
    for part in target.parents:
        if part == tree:
            break
        if part.is_symlink():
            raise ApplyError(
                f"{patch.name}: {shown(path)}: '{shown(str(part.relative_to(tree)))}' is a symlink in the tree. "
                "Patch the file that it names"
            )
    if target.is_symlink():
        return Blob(os.fsencode(os.readlink(target)), SYMLINK)
    if not target.exists():
        return None
    if not target.is_file():
        raise ApplyError(
            f"{patch.name}: {shown(path)}: a directory in the tree. Fix the patch's path"
        )
    return Blob(target.read_bytes(), EXECUTABLE if os.access(target, os.X_OK) else REGULAR)


def _write(target: Path, blob: Blob) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if blob.mode == SYMLINK:
        name = tempfile.mktemp(dir=target.parent, prefix=".patch-")
        os.symlink(os.fsdecode(blob.data), name)
        os.replace(name, target)
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".patch-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(blob.data)
        os.chmod(name, 0o755 if blob.mode == EXECUTABLE else 0o644)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
