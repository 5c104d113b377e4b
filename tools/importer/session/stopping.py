# SPDX-License-Identifier: Apache-2.0
"""Stop an unfinished command at a patch, and forget it: each step leaves what the next command needs.

The order of writes matters, since a kill may come between any two. The files that a person is editing
belong to the patch that the state names; so before they make way for the next patch's, the state has
what he decided, and names no patch until the new files are there to be shown.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from tools.importer.engine import PatchResult
from tools.importer.errors import UserError
from tools.importer.session.conflict import (
    DIRECTORY,
    STAGED,
    SUMMARY,
    hide_conflict,
    show_conflict,
    stage_conflict,
    stop_of,
)
from tools.importer.session.unfinished import (
    DESK,
    EDITING,
    STATE_FILE,
    Unfinished,
    aside_of,
    read_unfinished,
    write_unfinished,
)

# All that an unfinished command keeps, in the order in which it is deleted.
SESSION_FILES = (
    STATE_FILE,
    SUMMARY,
    DIRECTORY,
    STAGED,
    DESK,
    *(aside_of(name) for name in (STATE_FILE, SUMMARY)),
)


def stop_at(state: Path, unfinished: Unfinished, result: PatchResult, series: Path) -> None:
    """Remember the decisions so far, and lay out the files of the patch that waits."""
    stage_conflict(state, result)
    write_unfinished(state, dataclasses.replace(unfinished, stop=None))
    hide_conflict(state)
    write_unfinished(state, dataclasses.replace(unfinished, stop=stop_of(result)))
    show_conflict(state, result, series)


def waits_for_files(state: Path, unfinished: Unfinished) -> bool:
    """Whether a person's files are there to be read back; False after a kill just before that."""
    return unfinished.stop is not None and (state / DIRECTORY).is_dir()


def back_to_desk(state: Path) -> Unfinished | None:
    """Undo a rebase that a person's edit stopped at; the edit is at the desk as it was.

    Returns what is under way then; None where no edit is to go back to.
    """
    try:
        unfinished = read_unfinished(state)
    except UserError:
        return None  # nothing in a damaged file can be gone back to
    if unfinished is None or unfinished.command == EDITING or not (state / DESK).is_dir():
        return None
    if unfinished.inputs.get("kind") not in ("replace", "insert"):
        return None
    edit = dataclasses.replace(unfinished, command=EDITING, decisions={}, stop=None)
    write_unfinished(state, edit)
    hide_conflict(state)
    return edit


def forget(state: Path) -> None:
    """Delete what an unfinished command keeps."""
    for name in SESSION_FILES:
        path = state / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def refuse_unfinished(state: Path) -> None:
    """Raise UserError when a command waits for a person: another must not start over it."""
    unfinished = read_unfinished(state)
    if unfinished is not None and unfinished.command == EDITING:
        raise UserError(
            f"{unfinished.inputs['name']} is being edited. Run `import.py refresh` or `abort` first"
        )
    if unfinished is not None:
        at = f" at {unfinished.stop.patch}" if unfinished.stop else ""
        raise UserError(
            f"{unfinished.command} of {unfinished.project} waits{at}. "
            "Run `import.py continue`, `skip` or `abort` first"
        )


def require_unfinished(state: Path) -> Unfinished:
    """Return what waits for a person. Raises UserError when nothing does."""
    unfinished = read_unfinished(state)
    if unfinished is None:
        raise UserError(f"{state}: nothing is under way. Start with `import.py --tag TAG`")
    return unfinished
