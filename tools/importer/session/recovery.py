# SPDX-License-Identifier: Apache-2.0
"""Finish an interrupted atomic change, rollback or `undo` before the next command runs."""

from __future__ import annotations

from pathlib import Path

from tools.importer.session import journal, stepping


def pending(state: Path) -> bool:
    """Return whether an atomic change, a rollback or `undo` was interrupted."""
    return journal.pending(state) or stepping.returning(state)


def recover(workspace: Path, state: Path) -> str | None:
    """Finish an interrupted operation. Return a message for the user, or None if there was none.

    Raises UserError if a file was edited after the interruption.
    """
    line = journal.recover(workspace, state)
    if stepping.returning(state):
        stepping.finish_step(state)
        line = line or "finished what was interrupted: going back one step"
    return line
