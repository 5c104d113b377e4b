# SPDX-License-Identifier: Apache-2.0
"""undo: revert the last step: file changes, a conflict resolution, or the start of a command."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Context, Scope
from tools.importer.commands.rebasing import HEADER_DIGEST
from tools.importer.commands.summary import change_lines, changes_data
from tools.importer.editing import Desk
from tools.importer.errors import ExitCode, UserError
from tools.importer.session import (
    EDITING,
    Changes,
    Unfinished,
    digest_of_header,
    earlier_step,
    edited_in,
    edited_since,
    forget,
    read_unfinished,
    refuse_edited,
    step_back,
    undo,
    undoable,
)

NAME = "undo"
HELP = "go back one step: take back the last import, decision, refresh, drop or edit"
SCOPE = Scope.STATE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments, because only the last step can be undone."""


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    unfinished = read_unfinished(context.project.state)
    if unfinished is None:
        return _undo_publication(context)
    return _undo_step(context, unfinished)


def _undo_publication(context: Context) -> ExitCode:
    project, report = context.project, context.report
    last = undoable(project.state)
    if last is None:
        report.say("nothing to undo: no command has changed this workspace, or it was undone")
        report.result({"outcome": "nothing to do"})
        return ExitCode.NOTHING_TO_DO
    changes = Changes(
        tuple(sorted(move.path for move in last.moves if move.after is None)),
        tuple(sorted(move.path for move in last.moves if move.after and move.before)),
        tuple(sorted(move.path for move in last.moves if move.before is None)),
    )
    if context.dry_run:
        edited = edited_since(project.workspace, last)
        verb = f"cannot be undone, {edited[0]} changed since:" if edited else "would be undone:"
        report.say(f"{verb} {last.what}")
    else:
        undo(project.workspace, project.state)
        report.say(f"undone: {last.what}")
    for line in change_lines(changes):
        report.say(line)
    waiting = None if context.dry_run else read_unfinished(project.state)
    if waiting is not None:
        report.say("the command waits again, with your files: see `import.py status`")
    _answer(context, last.what, changes)
    return ExitCode.DONE


def _undo_step(context: Context, unfinished: Unfinished) -> ExitCode:
    state, report = context.project.state, context.report
    inputs = unfinished.inputs
    what = f"{unfinished.command} of {unfinished.project}: {inputs['source']} -> {inputs['label']}"
    if unfinished.command == EDITING:
        refuse_edited(_edited_on_desk(context, unfinished), f"the edit of {inputs['name']}")
    position = f" at {unfinished.stop.patch}" if unfinished.stop else ""
    refuse_edited(edited_in(state, unfinished), f"{unfinished.command}, which waits{position},")
    earlier = earlier_step(state)
    if earlier is None and unfinished.decisions:
        raise UserError(
            f"{unfinished.command} of {unfinished.project}: only one decision can be undone. "
            "`import.py abort` discards all of them"
        )
    if earlier is None:
        line = f"{what}: discarded; the workspace is as before it began"
    elif earlier.stop is not None:
        line = f"{what}: waits at {earlier.stop.patch} again, with your files"
    else:
        line = f"{inputs['name']} is being edited again, with your files"
    if not context.dry_run:
        if earlier is None:
            forget(state)
        else:
            step_back(state)
    report.say(f"would be undone: {line}" if context.dry_run else f"undone: {line}")
    _answer(context, what, Changes())
    return ExitCode.DONE


def _edited_on_desk(context: Context, unfinished: Unfinished) -> list[str]:
    desk = Desk(context.project.state)
    edited = list(desk.tree.changes(context.report))
    recorded = unfinished.inputs.get(HEADER_DIGEST)
    if digest_of_header(desk.header()) != recorded:
        edited.append(desk.header_file.name)
    return edited


def _answer(context: Context, what: str, changes: Changes) -> None:
    context.report.result(
        {
            "outcome": "undone",
            "what": what,
            "files": changes_data(changes),
            "dry_run": context.dry_run,
        }
    )
