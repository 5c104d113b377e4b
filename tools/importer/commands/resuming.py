# SPDX-License-Identifier: Apache-2.0
"""Resume a stopped command. `_ROWS` has an entry for each command that can stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tools.importer.commands import importing, rebasing
from tools.importer.commands.context import Context
from tools.importer.engine import Decision
from tools.importer.errors import ExitCode, UserError
from tools.importer.session import EDITING, Unfinished
from tools.importer.snapshot import Snapshot


@dataclass(frozen=True)
class Resumed:
    """An unfinished command, ready to resume. `new` is the tree to rebase patches onto."""

    new: Snapshot
    go_on: Callable[[Mapping[str, Decision]], ExitCode]


def resume(context: Context, unfinished: Unfinished) -> Resumed:
    """Prepare to resume an unfinished command. Raises UserError if its inputs have changed."""
    if unfinished.project != context.project.name:
        raise UserError(
            f"{unfinished.command} of {unfinished.project} is unfinished. Name it: "
            f"--project {unfinished.project}"
        )
    if unfinished.command == EDITING:
        raise UserError(
            f"{unfinished.inputs['name']} is being edited. `import.py refresh` writes the patch, "
            "`import.py abort` discards it"
        )
    return _ROWS[unfinished.command](context, unfinished)


def _import(context: Context, unfinished: Unfinished) -> Resumed:
    work, source, new = importing.resume(context, unfinished)
    return Resumed(new, lambda decisions: importing.go_on(context, work, source, new, decisions))


def _rebase(context: Context, unfinished: Unfinished) -> Resumed:
    release, edit, new = rebasing.resume(context, unfinished)
    return Resumed(new, lambda decisions: rebasing.go_on(context, release, edit, decisions))


_ROWS: Mapping[str, Callable[[Context, Unfinished], Resumed]] = {
    importing.COMMAND: _import,
    rebasing.COMMAND: _rebase,
}
