# SPDX-License-Identifier: Apache-2.0
"""abort: roll back partly written workspace files, or discard a command stopped at a conflict."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Access, Context, Scope
from tools.importer.errors import ExitCode
from tools.importer.session import (
    DESK,
    SESSION_FILES,
    back_to_desk,
    forget,
    pending,
    recover,
    roll_back,
)

NAME = "abort"
HELP = "discard the unfinished command and restore the workspace"
ACCESS = Access.UNDOES
SCOPE = Scope.STATE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    project, report = context.project, context.report
    state = project.state
    session_files = [name for name in SESSION_FILES if (state / name).exists()]
    if not session_files and not pending(state):
        report.say("nothing is under way")
        report.result({"outcome": "nothing to do"})
        return ExitCode.NOTHING_TO_DO
    if context.dry_run:
        report.say(f"would delete {', '.join(session_files)} in {state}")
    else:
        taken_back = roll_back(project.workspace, state)
        if taken_back:
            report.say(taken_back)
        recover(project.workspace, state)
        edit = back_to_desk(state)
        if edit is not None:
            report.say(
                f"editing again: {edit.inputs['name']} is in .import/{DESK} as you left it; "
                "`import.py refresh` tries again, `import.py abort` discards it"
            )
            report.result({"outcome": "editing", "patch": edit.inputs["name"]})
            return ExitCode.DONE
        forget(state)
        report.say("aborted: the workspace is as before")
    report.result({"outcome": "aborted", "dry_run": context.dry_run})
    return ExitCode.DONE
