# SPDX-License-Identifier: Apache-2.0
"""The journal of a publication, an atomic change to several files: finish, undo or roll it back.

A publication is stored as a directory in the state directory. The directory's name is the phase of
the publication, and each phase change is one rename:

    publish.new    staged or rolled back: the workspace is unchanged; may be deleted
    publish        committed: the next command finishes it
    publish.done   all files are in place; the command's own state must still be moved away
    undo           the last publication, kept for `import.py undo`
    publish.back   rolling back: the next command finishes the rollback

In this directory, `new/N` is the new content of file N, `old/N` is a hard link to the old file, and
`journal.json` lists the files. One rename moves `new/N` into place, so a missing `new/N` means that
the move is done. `state/` holds the state files of the command that made the change, because `undo`
restores them as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.importer.errors import EnvironmentProblem, UserError

STAGED, VALID, BACK, DONE = "publish.new", "publish", "publish.back", "publish.done"
UNDO = "undo"
_JOURNAL = "journal.json"
_STATE = "state"


@dataclass(frozen=True)
class Move:
    """A file to write, with its sha256 before and after. None means that no file exists."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Journal:
    """An atomic change to several files; error messages refer to it as `what`.

    `made` lists the directories that it creates, and `clears` the state files that it moves out of
    the state directory at the end.
    """

    what: str
    moves: tuple[Move, ...]
    made: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()


def write_journal(stage: Path, journal: Journal) -> None:
    """Write and sync the journal of a staged change."""
    write_durably(stage / _JOURNAL, json.dumps(asdict(journal), indent=1).encode())


def pending(state: Path) -> bool:
    """Return whether an atomic change was started but not finished."""
    return any((state / name).is_dir() for name in (VALID, DONE, BACK))


def recover(workspace: Path, state: Path) -> str | None:
    """Finish an interrupted atomic change to several files, or its rollback.

    Return a message for the user, or None if nothing was interrupted. Raises UserError if a file
    was edited after the interruption, because edits are never overwritten.
    """
    if (state / BACK).is_dir():
        return roll_back(workspace, state)
    line = None
    if (state / VALID).is_dir():
        description = roll_forward(workspace, state, check=True)
        line = f"finished what was interrupted: {description}"
    if (state / DONE).is_dir():
        _clear(state)
    shutil.rmtree(state / STAGED, ignore_errors=True)
    return line


def roll_forward(workspace: Path, state: Path, *, check: bool) -> str:
    """Move all new files into place and complete the atomic change. Idempotent."""
    root = state / VALID
    journal = _read(root)
    with _one_line(journal, "`import.py status` finishes it, `import.py abort` takes it back"):
        sync_directory(state)
        for number, move in enumerate(journal.moves):
            _move(workspace, root, number, move, check=check)
        _remove_empty(workspace, journal)
        _sync_parents(workspace, journal)
        os.rename(root, state / DONE)
    _clear(state)
    return journal.what


def roll_back(workspace: Path, state: Path) -> str | None:
    """Restore the old files, and return a message for the user. Idempotent.

    Return None if no change was committed.
    """
    if (state / VALID).is_dir():
        os.rename(state / VALID, state / BACK)  # from now on, no command finishes the publication
    if not (state / BACK).is_dir():
        return None
    return f"took back what was interrupted: {_finish_rollback(workspace, state)}"


def undoable(state: Path) -> Journal | None:
    """Return the journal of the last completed change, or None if there is none to undo."""
    root = state / UNDO
    return _read(root) if (root / _JOURNAL).is_file() else None


def edited_since(workspace: Path, journal: Journal) -> list[str]:
    """Return the files that have been edited since the change was completed."""
    return [move.path for move in journal.moves if digest_of(workspace / move.path) != move.after]


def undo(workspace: Path, state: Path) -> None:
    """Roll back the last completed change, including the state files of its command.

    `undoable` must have returned a journal. If the process is killed, the next command finishes the
    rollback. Raises UserError if a file was edited after the change.
    """
    journal = _read(state / UNDO)
    edited = edited_since(workspace, journal)
    if edited:
        more = f" and {len(edited) - 3} more" if len(edited) > 3 else ""
        raise UserError(
            f"{journal.what} cannot be undone: {', '.join(edited[:3])}{more} changed since. Put the "
            "change aside, for example with git stash, and run this again"
        )
    with _one_line(journal, "run `import.py undo` again"):
        shutil.rmtree(state / STAGED, ignore_errors=True)
        os.rename(state / UNDO, state / BACK)
    _finish_rollback(workspace, state)


def _finish_rollback(workspace: Path, state: Path) -> str:
    """Restore all old files, and return the name of the change. Idempotent."""
    root = state / BACK
    journal = _read(root)
    with _one_line(journal, "the next command goes on taking it back"):
        for number, move in enumerate(journal.moves):
            _move_back(workspace, root, number, move)
        for directory in sorted(journal.made, reverse=True):
            if (workspace / directory).is_dir() and not os.listdir(workspace / directory):
                os.rmdir(workspace / directory)
        _sync_parents(workspace, journal)
        if (root / _STATE).is_dir():
            for name in os.listdir(root / _STATE):
                _remove(state / name)
                os.rename(root / _STATE / name, state / name)
        os.rename(root, state / STAGED)
        sync_directory(state)
    shutil.rmtree(state / STAGED, ignore_errors=True)
    return journal.what


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Create a file and sync it to disk. The caller then renames it into place."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(handle, remaining) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Sync a directory to disk, which makes renames in it durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(path: Path) -> str | None:
    """Return a file's sha256, or None if it does not exist."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _move(workspace: Path, root: Path, number: int, move: Move, *, check: bool) -> None:
    target, new = workspace / move.path, root / "new" / str(number)
    if move.after is None:
        if digest_of(target) is None:
            return
        _check(target, (move.before,), move, check)
        os.unlink(target)
        return
    if not new.exists():
        return  # the file has been moved; keep any later edits
    _check(target, (move.before, move.after), move, check)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(new, target)


def _move_back(workspace: Path, root: Path, number: int, move: Move) -> None:
    target, old = workspace / move.path, root / "old" / str(number)
    if move.after is not None and (root / "new" / str(number)).exists():
        return  # the publication had not moved this file
    _check(target, (move.before, move.after), move, True)
    if move.before is None:
        target.unlink(missing_ok=True)
    elif old.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(old, target)


def _check(target: Path, expected: tuple[str | None, ...], move: Move, check: bool) -> None:
    if check and digest_of(target) not in expected:
        raise UserError(
            f"{move.path}: edited after a command was killed that had yet to publish it. "
            "Move your version aside, run `import.py status`, and put it back"
        )


def _clear(state: Path) -> None:
    """Complete an atomic change whose files are all in place, so that `undo` can revert it."""
    root = state / DONE
    journal = _read(root)
    with _one_line(journal, "the next command cleans up"):
        sync_directory(state)
        (root / _STATE).mkdir(exist_ok=True)
        for name in journal.clears:
            if (state / name).exists():
                _remove(root / _STATE / name)
                os.rename(state / name, root / _STATE / name)
        if (state / UNDO).exists():
            shutil.rmtree(state / UNDO)
        os.rename(root, state / UNDO)
        sync_directory(state)


def _remove_empty(workspace: Path, journal: Journal) -> None:
    """Delete the directories that became empty because their files were deleted."""
    for move in journal.moves:
        directory = (workspace / move.path).parent
        if move.after is None and directory.is_dir() and not os.listdir(directory):
            os.rmdir(directory)


def _sync_parents(workspace: Path, journal: Journal) -> None:
    parents = {(workspace / move.path).parent for move in journal.moves}
    above = {(workspace / directory).parent for directory in journal.made}
    for parent in sorted(parents | above):
        if parent.is_dir():
            sync_directory(parent)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _one_line(journal: Journal, next_step: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(
            f"{journal.what} is not finished: {error}. Fix that; then {next_step}"
        ) from error


def _read(root: Path) -> Journal:
    data = json.loads((root / _JOURNAL).read_bytes())
    moves = tuple(Move(**move) for move in data["moves"])
    journal = Journal(data["what"], moves, tuple(data["made"]), tuple(data["clears"]))
    for path in (*(move.path for move in moves), *journal.made, *journal.clears):
        if path.startswith("/") or ".." in path.split("/"):
            raise UserError(
                f"{root / _JOURNAL}: '{path}' leads out of the workspace, which no command writes. "
                f"Delete {root}"
            )
    return journal
