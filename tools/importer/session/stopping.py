# SPDX-License-Identifier: Apache-2.0
"""Stop a command at a patch that needs manual resolution, or discard the command.

The order of writes matters, because the process may be killed between any two. The state must never
name one patch while the files of another are on disk. So the state first records the user's
resolution and names no patch. Then the old files are deleted, the state names the next patch, and
that patch's staged files are moved into place.
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
from tools.importer.session.stepping import EARLIER, keep_step
from tools.importer.session.unfinished import (
    DESK,
    EDITING,
    STATE_FILE,
    Unfinished,
    aside_of,
    read_unfinished,
    write_unfinished,
)

# All files of an unfinished command, in the order in which they are deleted.
SESSION_FILES = (
    STATE_FILE,
    SUMMARY,
    DIRECTORY,
    STAGED,
    DESK,
    EARLIER,
    *(aside_of(name) for name in (STATE_FILE, SUMMARY, EARLIER)),
)


def stop_at(state: Path, unfinished: Unfinished, result: PatchResult, series: Path) -> None:
    """Record the user's decisions so far, and write the conflict files for `result`'s patch."""
    keep_step(state)
    stage_conflict(state, result)
    write_unfinished(state, dataclasses.replace(unfinished, stop=None))
    hide_conflict(state)
    write_unfinished(state, dataclasses.replace(unfinished, stop=stop_of(result)))
    show_conflict(state, result, series)


def waits_for_files(state: Path, unfinished: Unfinished) -> bool:
    """Return whether the command waits for the user to resolve files in `.import/conflict`.

    Return False if the command was killed before it wrote them.
    """
    return unfinished.stop is not None and (state / DIRECTORY).is_dir()


def back_to_desk(state: Path) -> Unfinished | None:
    """Discard a rebase that stopped at a conflict, and return to the edit that started it.

    The files in `.import/edit` are kept. Return the edit's state, or None if no edit started it.
    """
    try:
        unfinished = read_unfinished(state)
    except UserError:
        return None  # a corrupt file has no edit to restore
    if unfinished is None or unfinished.command == EDITING or not (state / DESK).is_dir():
        return None
    if unfinished.inputs.get("kind") not in ("replace", "insert"):
        return None
    edit = dataclasses.replace(unfinished, command=EDITING, decisions={}, stop=None)
    write_unfinished(state, edit)
    hide_conflict(state)
    return edit


def forget(state: Path) -> None:
    """Delete the state of an unfinished command."""
    for name in SESSION_FILES:
        path = state / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def refuse_unfinished(state: Path) -> None:
    """Raise UserError if a command is unfinished, because a new one would overwrite its state."""
    unfinished = read_unfinished(state)
    if unfinished is not None and unfinished.command == EDITING:
        raise UserError(
            f"{unfinished.inputs['name']} is being edited. Run `import.py refresh` or `abort` first"
        )
    if unfinished is not None:
        position = f" at {unfinished.stop.patch}" if unfinished.stop else ""
        raise UserError(
            f"{unfinished.command} of {unfinished.project} waits{position}. "
            "Run `import.py continue`, `skip` or `abort` first"
        )


def require_unfinished(state: Path) -> Unfinished:
    """Return the state of the unfinished command. Raises UserError if there is none."""
    unfinished = read_unfinished(state)
    if unfinished is None:
        raise UserError(f"{state}: nothing is under way. Start with `import.py --tag TAG`")
    return unfinished
