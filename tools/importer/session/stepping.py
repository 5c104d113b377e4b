# SPDX-License-Identifier: Apache-2.0
"""Undo the last conflict resolution in a command that stops at conflicts.

Before the files of the next conflict replace those of the current one, `keep_step` copies the state
and the files to `.import/earlier`. `step_back` first renames that directory. If the process is then
killed, the next command finishes the undo.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.session.conflict import DIRECTORY, STAGED, SUMMARY, changed_files
from tools.importer.session.journal import sync_directory, write_durably
from tools.importer.session.unfinished import (
    EDITING,
    STATE_FILE,
    Unfinished,
    aside_of,
    read_unfinished,
)

EARLIER = "earlier"
_RETURNING = "earlier.back"


def keep_step(state: Path) -> None:
    """Copy the state and the files of the current conflict, if any, to `.import/earlier`."""
    unfinished = read_unfinished(state)
    if unfinished is None or (unfinished.stop is None and unfinished.command != EDITING):
        return
    stage = state / aside_of(EARLIER)
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    if unfinished.stop is not None and (state / DIRECTORY).is_dir():
        shutil.copytree(state / DIRECTORY, stage / DIRECTORY, symlinks=True)
        if (state / SUMMARY).exists():
            shutil.copyfile(state / SUMMARY, stage / SUMMARY)
    write_durably(stage / STATE_FILE, (state / STATE_FILE).read_bytes())
    sync_directory(stage)
    if (state / EARLIER).exists():
        shutil.rmtree(state / EARLIER)
    os.rename(stage, state / EARLIER)


def earlier_step(state: Path) -> Unfinished | None:
    """Return the state before the user's last resolution, or None if none can be undone."""
    if not (state / EARLIER / STATE_FILE).is_file():
        return None
    if (state / EARLIER / STATE_FILE).read_bytes() == (state / STATE_FILE).read_bytes():
        return None  # the process was killed before the resolution took effect
    return read_unfinished(state / EARLIER)


def edited_in(state: Path, unfinished: Unfinished) -> Collection[str]:
    """Return the files that the user has changed since `unfinished` stopped."""
    if unfinished.stop is None or not (state / DIRECTORY).is_dir():
        return ()  # the process was killed before it wrote the files
    return changed_files(state, unfinished.stop)


def step_back(state: Path) -> None:
    """Restore the state before the last resolution. `earlier_step` must have returned a state."""
    os.rename(state / EARLIER, state / _RETURNING)
    finish_step(state)


def returning(state: Path) -> bool:
    """Return whether `step_back` was interrupted."""
    return (state / _RETURNING).is_dir()


def finish_step(state: Path) -> None:
    """Finish an interrupted `step_back`. Idempotent."""
    root = state / _RETURNING
    file = root / STATE_FILE
    if file.exists():
        for name in (STAGED, aside_of(STATE_FILE), aside_of(SUMMARY)):
            _clear(state / name)
        has_files = json.loads(file.read_bytes())["stop"] is not None
        for name in (DIRECTORY, SUMMARY):
            if (root / name).exists() or not has_files:
                _clear(state / name)
            if (root / name).exists():
                os.rename(root / name, state / name)
        # Move the state last: until then, the next command repeats an interrupted undo.
        os.replace(file, state / STATE_FILE)
        sync_directory(state)
    shutil.rmtree(root)


def digest_of_header(header: bytes) -> str:
    """Return a hash of a patch header, to detect later edits by the user."""
    return hashlib.sha256(header).hexdigest()


def refuse_edited(paths: Collection[str], what: str) -> None:
    """Raise UserError if `paths`, the edited files that an undo would overwrite, is not empty."""
    if paths:
        named = ", ".join(sorted(paths)[:3]) + (", ..." if len(paths) > 3 else "")
        raise UserError(
            f"{what} cannot be undone: you have changed {named}. To discard these changes, run "
            "`import.py abort`"
        )


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
