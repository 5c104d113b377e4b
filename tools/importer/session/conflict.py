# SPDX-License-Identifier: Apache-2.0
"""Write files with conflicts to `.import/conflict`, and read the user's resolution back.

Each file has the same path there as in the new tree, and conflicting text is between markers. A
binary file, or one that upstream deleted, has no markers, so the user must change it, or add it to
the index unchanged.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.importer.engine.outcome import FileResult, Outcome, PatchResult, Resolved
from tools.importer.engine.side_by_side import pairs_of, side_by_side
from tools.importer.errors import UserError
from tools.importer.session.journal import write_durably
from tools.importer.session.unfinished import Stop, StopFile, replace_file
from tools.importer.session.unmerged_index import (
    REPOSITORY,
    added_paths,
    is_mergetools,
    write_repository,
)
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, Blob, Snapshot

DIRECTORY = "conflict"
SUMMARY = "CONFLICT.md"
STAGED = "conflict.new"
_MARKERS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")
_MIDDLE = b"======="


@dataclass(frozen=True)
class Unsettled:
    """An unresolved conflict in a file. `line` counts from 1; 0 means the whole file."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


def stop_of(result: PatchResult) -> Stop:
    """Return the files of `result`'s patch that the user must resolve."""
    files = {file.new_path: _stop_file(result, file) for file in _open_files(result)}
    return Stop(result.patch.name, result.outcome.value, files)


def stage_conflict(state: Path, result: PatchResult) -> None:
    """Stage the files that the user must resolve. `show_conflict` renames the staging directory."""
    shutil.rmtree(state / STAGED, ignore_errors=True)
    (state / STAGED).mkdir(parents=True)
    for file in _open_files(result):
        if file.after is None:
            continue
        target = state / STAGED / _plain(file.new_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_durably(target, file.after.data, 0o777 if file.after.mode == EXECUTABLE else 0o666)
    blobs = {file.new_path: file.after for file in _open_files(result) if file.after is not None}
    if REPOSITORY not in {path.split("/")[0] for path in blobs}:
        write_repository(state / STAGED, blobs)


def show_conflict(state: Path, result: PatchResult, series: Path) -> None:
    """Move the staged files to `.import/conflict` with one rename, and write CONFLICT.md."""
    os.rename(state / STAGED, state / DIRECTORY)
    replace_file(state / SUMMARY, _summary(result, series).encode("utf-8", "surrogateescape"))


def hide_conflict(state: Path) -> None:
    """Delete the conflict files once they are resolved or no longer needed."""
    (state / SUMMARY).unlink(missing_ok=True)
    if (state / DIRECTORY).exists():
        shutil.rmtree(state / DIRECTORY)


def unsettled(state: Path, stop: Stop) -> list[Unsettled]:
    """Return the remaining conflict markers, and files that the user has not changed, by path."""
    problems: list[Unsettled] = []
    others = [path for path in _laid_out(state, stop) if path not in stop.files]
    added: Collection[str] | None = None
    for path, file in sorted(stop.files.items()):
        blob = _read(state, path, file)
        known = {mark.encode() for mark in file.marks}
        markers = list(_marker_lines(blob.data if blob else b"", known))
        problems += [Unsettled(path, line, f"'{text}' is still there") for line, text in markers]
        digest = None if blob is None else hashlib.sha256(blob.data).hexdigest()
        # A missing file counts as resolved if the user has added another one: its lines may have
        # moved there.
        moved = digest is None and bool(others)
        if not markers and digest == file.digest and not moved:
            added = added_paths(state / DIRECTORY) if added is None else added
            if path in added:
                continue  # the user, or mergetool, has added the file to the index
            problems.append(Unsettled(path, 0, f"untouched ({file.note or stop.outcome})"))
    return problems


def changed_files(state: Path, stop: Stop) -> list[str]:
    """Return the files that the user has changed, added or deleted in `.import/conflict`."""
    out = [path for path in _laid_out(state, stop) if path not in stop.files]
    for path, file in stop.files.items():
        blob = _read(state, path, StopFile(None, REGULAR, ""))
        digest = None if blob is None else hashlib.sha256(blob.data).hexdigest()
        if digest != file.digest:
            out.append(path)
    return sorted(out)


def read_resolution(state: Path, stop: Stop, new: Snapshot) -> Resolved:
    """Return the files as the user left them; None for a file that the user deleted.

    Raises UserError if the user added a file that neither the new tree nor the patch contains.
    """
    files: dict[str, Blob | None] = {
        path: _read(state, path, file) for path, file in stop.files.items()
    }
    for path in _laid_out(state, stop):
        if path in files:
            continue
        if new.read(path) is None:
            raise UserError(
                f"{state / DIRECTORY / path}: {new.label} has no such file, and the patch does not touch "
                "it. Move it away; to have the patch make a new file, use `import.py edit` afterwards"
            )
        files[path] = _read(state, path, StopFile(None, REGULAR, ""))
    return Resolved(files)


def _open_files(result: PatchResult) -> list[FileResult]:
    return [file for file in result.files if file.outcome.stops]


def _stop_file(result: PatchResult, file: FileResult) -> StopFile:
    own = set((file.before.data if file.before else b"").split(b"\n"))
    for diff in result.patch.files:
        for hunk in diff.hunks:
            own.update(line.rstrip(b"\n") for line in hunk.new)
    marks = sorted(line.decode("utf-8", "replace") for line in own if _like_marker(line))
    after = file.after
    return StopFile(
        None if after is None else hashlib.sha256(after.data).hexdigest(),
        REGULAR if after is None else after.mode,
        file.note,
        tuple(marks),
    )


def _marker_lines(data: bytes, known: set[bytes]) -> Iterator[tuple[int, str]]:
    if b"\0" in data[:8192]:
        return
    for number, line in enumerate(data.split(b"\n"), start=1):
        if _like_marker(line) and line.decode("utf-8", "replace").encode() not in known:
            yield number, line.decode("utf-8", "replace")[:40].rstrip()


def _like_marker(line: bytes) -> bool:
    return line.startswith(_MARKERS) or line.rstrip(b"\r") == _MIDDLE


def _laid_out(state: Path, stop: Stop) -> list[str]:
    """Return the files in `.import/conflict`, except those of git and its mergetool."""
    root = state / DIRECTORY
    paths = (
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    )
    return sorted(
        path for path in paths if path in stop.files or not is_mergetools(path, stop.files)
    )


def _read(state: Path, path: str, file: StopFile) -> Blob | None:
    full = state / DIRECTORY / _plain(path)
    if full.is_symlink():
        return Blob(os.fsencode(os.readlink(full)), SYMLINK)
    if not full.is_file():
        return None
    data = full.read_bytes()
    if file.mode == SYMLINK:  # the importer wrote the link's target as text, to show markers
        return Blob(data.rstrip(b"\n"), SYMLINK)
    return Blob(data, EXECUTABLE if full.stat().st_mode & 0o100 else REGULAR)


def _plain(path: str) -> PurePosixPath:
    parts = path.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise UserError(
            f"'{path}' is not a plain path below the tree. The patch or the origin is bad"
        )
    return PurePosixPath(path)


def _summary(result: PatchResult, series: Path) -> str:
    header = result.patch.header
    lines = [
        f"# {result.patch.name}: {result.outcome.value}",
        "",
        f"Subject: {header['Subject']}",
        f"Reason: {header['Reason']}",
        f"Upstream: {header['Upstream']}",
        f"{'Patch' if result.patch.line else 'Data'}: {series / result.patch.name}",
        "",
        *([result.note, ""] if result.note else []),
        "Files to settle, below `.import/conflict/`:",
        "",
    ]
    for file in _open_files(result):
        shown = "" if file.after is not None else " (no file there)"
        lines.append(f"- `{file.new_path}`{shown}: {file.outcome.value}. {file.note}".rstrip(". "))
        if file.outcome is Outcome.SUSPECTED and file.conflicts:
            lines += ["", "  The patch's text and upstream's, side by side:", ""]
            lines += [f"      {line}" for line in side_by_side(pairs_of(file))]
            lines.append("")
        elif file.inner:
            lines += ["", "  How upstream's version differs from the patch's:", ""]
            lines += [f"      {line}" for line in file.inner.splitlines()]
            lines.append("")
    lines += [
        "",
        "Between the markers are upstream's new lines (ours), the lines of the old release (base) and",
        "the patch's (theirs). Edit each file so that it is right for the new release, then run one of:",
        "",
        "    tools/import.py continue   # accept the files; if all equal upstream's, the patch landed",
        "    tools/import.py skip       # leave this patch out of the new series",
        "    tools/import.py abort      # discard the import; the workspace is as before",
        "",
        "`git -C .import/conflict mergetool` opens your merge tool for each file; then `continue`.",
        "",
    ]
    return "\n".join(lines)
