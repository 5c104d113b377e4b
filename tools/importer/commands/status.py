# SPDX-License-Identifier: Apache-2.0
"""status: show the unfinished command, the conflicting patch, unresolved files and next step."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Access, Context, Scope
from tools.importer.engine import Skip
from tools.importer.errors import ExitCode
from tools.importer.session import DESK, EDITING, read_unfinished, unsettled, waits_for_files

NAME = "status"
HELP = "show the unfinished command and the next step (exit status 2: a patch waits)"
ACCESS = Access.READS
SCOPE = Scope.STATE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    state, report = context.project.state, context.report
    unfinished = read_unfinished(state)
    if unfinished is None:
        report.say("nothing is under way")
        report.result({"under_way": None})
        return ExitCode.DONE
    inputs = unfinished.inputs
    description = (
        f"{unfinished.command} of {unfinished.project}: {inputs['source']} -> {inputs['label']}"
    )
    report.say(description)
    for name, decision in unfinished.decisions.items():
        report.say(f"  decided: {name} ({'skipped' if isinstance(decision, Skip) else 'resolved'})")
    if unfinished.command == EDITING:
        report.say(f"edit the files in .import/{DESK}; next: `import.py refresh`, or abort")
        report.result({"under_way": EDITING, "patch": inputs["name"], "release": inputs["label"]})
        return ExitCode.CONFLICT
    stop = unfinished.stop if waits_for_files(state, unfinished) else None
    remaining = unsettled(state, stop) if stop else []
    if stop is None:
        step = "`import.py continue`"
        report.say("it was killed between two patches; nothing is lost")
    else:
        report.say(f"stopped at {stop.patch}: {stop.outcome}; see .import/CONFLICT.md")
        step = "`import.py continue`, or skip, or abort"
        for each in remaining:
            report.say(f"  .import/conflict/{each}")
        if remaining:
            step = "edit these files; then " + step
    report.say(f"next: {step}")
    report.result(
        {
            "under_way": unfinished.command,
            "from": inputs["source"],
            "to": inputs["label"],
            "decided": sorted(unfinished.decisions),
            "patch": stop.patch if stop else None,
            "outcome": stop.outcome if stop else None,
            "files": sorted(stop.files) if stop else [],
            "left": [str(each) for each in remaining],
        }
    )
    return ExitCode.CONFLICT
