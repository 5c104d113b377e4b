# SPDX-License-Identifier: Apache-2.0
"""Write (publish) a set of files to the workspace atomically.

The new files are staged and synced, one rename commits the journal, and only then are the files
renamed into place. If the process is killed before the commit, the workspace is unchanged. If it is
killed later, the next command finishes moving the files (see journal.py). If a rename fails, all
files are rolled back. Unchanged files keep their timestamps, so that they trigger no rebuild.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.session.journal import (
    STAGED,
    VALID,
    Journal,
    Move,
    digest_of,
    roll_back,
    roll_forward,
    sync_directory,
    write_durably,
    write_journal,
)


@dataclass(frozen=True)
class Changes:
    """The sorted workspace paths that a transaction adds, changes and deletes."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted)


class Transaction:
    """A set of file changes that are made together, atomically.

    Messages refer to the transaction as `what`, such as "the import of v2.14.1".
    """

    def __init__(self, workspace: Path, state: Path, *, what: str) -> None:
        self._workspace, self._state, self._what = workspace, state, what
        self._files: dict[str, bytes | None] = {}

    def write(self, path: str, data: bytes) -> None:
        """Schedule a write of the file `path`. An existing file keeps its mode.

        Raises UserError if `path` is a directory, contains a symlink, or is outside the workspace.
        """
        self._files[self._checked(path)] = data

    def delete(self, path: str) -> None:
        """Schedule the deletion of `path`. Raises UserError for the same paths as `write`."""
        self._files[self._checked(path)] = None

    def changes(self) -> Changes:
        """Return the changes that `publish` would make if called now."""
        moves = self._moves(())
        return Changes(
            tuple(sorted(move.path for move in moves if move.before is None)),
            tuple(sorted(move.path for move in moves if move.before and move.after)),
            tuple(sorted(move.path for move in moves if move.after is None)),
        )

    def publish(self, *, last: Sequence[str] = (), clears: Sequence[str] = ()) -> Changes:
        """Move all files into place. The paths in `last` are moved after all others, in that order.

        `clears` names files to remove from the state directory at the end. The caller must hold the
        workspace lock. If a file cannot be written, restore the workspace and raise
        EnvironmentProblem.
        """
        changes = self.changes()
        moves = self._moves(last)
        clears = [name for name in clears if (self._state / name).exists()]
        if not moves and not clears:
            return changes
        directories = self._missing_directories(moves)
        try:
            self._stage(moves, Journal(self._what, moves, directories, tuple(clears)))
        except OSError as error:
            shutil.rmtree(self._state / STAGED, ignore_errors=True)
            raise EnvironmentProblem(
                f"{self._what} could not be written to {self._state}: {error}. "
                "Nothing was changed; fix that and run it again"
            ) from error
        try:
            roll_forward(self._workspace, self._state, check=False)
        except EnvironmentProblem as problem:
            if roll_back(self._workspace, self._state) is None:
                raise  # all files are in place: only the cleanup failed
            raise EnvironmentProblem(
                f"{self._what} could not be moved into place: {problem.__cause__}. "
                "Everything was put back; fix that and run it again"
            ) from problem
        return changes

    def _moves(self, last: Sequence[str]) -> tuple[Move, ...]:
        moves: dict[str, Move] = {}
        for path in sorted(self._files):
            data = self._files[path]
            after = None if data is None else hashlib.sha256(data).hexdigest()
            before = digest_of(self._workspace / path)
            if before != after:
                moves[path] = Move(path, before, after)
        tail = [path for path in last if path in moves]
        return tuple(moves[path] for path in [*(p for p in moves if p not in tail), *tail])

    def _stage(self, moves: Sequence[Move], journal: Journal) -> None:
        stage = self._state / STAGED
        shutil.rmtree(stage, ignore_errors=True)
        for directory in (stage / "new", stage / "old"):
            directory.mkdir(parents=True)
        for number, move in enumerate(moves):
            target = self._workspace / move.path
            data = self._files[move.path]
            if move.before is not None:
                _keep(target, stage / "old" / str(number))
            if data is not None:
                new = stage / "new" / str(number)
                write_durably(new, data)
                if move.before is not None:
                    shutil.copymode(target, new)
        for directory in (stage / "new", stage / "old"):
            sync_directory(directory)
        write_journal(stage, journal)
        sync_directory(stage)
        os.rename(stage, self._state / VALID)  # this rename commits: no later call may fail

    def _missing_directories(self, moves: Sequence[Move]) -> tuple[str, ...]:
        missing = set()
        for move in moves:
            for parent in PurePosixPath(move.path).parents:
                if move.after is not None and not (self._workspace / parent).exists():
                    missing.add(str(parent))
        return tuple(sorted(missing))

    def _checked(self, path: str) -> str:
        parts = path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\\" in path or "\0" in path:
            raise UserError(
                f"'{path}' is not a plain path below {self._workspace}. Nothing was written"
            )
        for depth in range(1, len(parts) + 1):
            full = self._workspace.joinpath(*parts[:depth])
            if full.is_symlink():
                raise UserError(
                    f"'{path}': '{full.relative_to(self._workspace)}' is a symlink, and what it names "
                    "may be outside the workspace. Replace it with its target"
                )
            if depth < len(parts) and full.exists() and not full.is_dir():
                raise UserError(
                    f"'{path}': {full} is a file, not a directory. Move it out of the way"
                )
        if full.is_dir():
            raise UserError(f"'{path}' is a directory. Move it out of the way")
        return path


def _keep(target: Path, old: Path) -> None:
    """Preserve `target` as the hard link `old`, or as a copy if hard links are not supported.

    With a link, a rollback restores the same inode.
    """
    try:
        os.link(target, old, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        write_durably(old, target.read_bytes())
        shutil.copystat(target, old)
