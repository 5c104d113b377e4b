# SPDX-License-Identifier: Apache-2.0
"""Finish an interrupted publication, rollback or step back before the next command."""

from __future__ import annotations

from pathlib import Path

from tools.importer.session import journal, stepping


def pending(state: Path) -> bool:
    """Return whether something was started in the state directory but not finished."""
    return journal.pending(state) or stepping.returning(state)


def recover(workspace: Path, state: Path) -> str | None:
    """Finish an interrupted operation, if any. Return a line that reports it, or None.

    Raises UserError if a file was edited before it was moved.
    """
    line = journal.recover(workspace, state)
    if stepping.returning(state):
        stepping.finish_step(state)
        line = line or "finished what was interrupted: going back one step"
    return line
