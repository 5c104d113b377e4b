# SPDX-License-Identifier: Apache-2.0
"""continue: accept the user's conflict resolutions, and resume the stopped command."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Context
from tools.importer.commands.resuming import resume
from tools.importer.errors import ExitCode
from tools.importer.session import (
    read_resolution,
    require_unfinished,
    unsettled,
    waits_for_files,
)

NAME = "continue"
HELP = "continue with the files in .import/conflict as you resolved them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="accept unchanged files that have no conflict markers",
    )


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    state = context.project.state
    unfinished = require_unfinished(state)
    decisions = dict(unfinished.decisions)
    stop = unfinished.stop if waits_for_files(state, unfinished) else None
    if stop is not None:
        remaining = [each for each in unsettled(state, stop) if each.line or not args.as_is]
        for each in remaining:
            context.report.say(f".import/conflict/{each}")
        if remaining:
            context.report.say(
                f"{stop.patch} is not settled: edit these files, then `import.py continue`"
                + (
                    ""
                    if any(each.line for each in remaining)
                    else " (--as-is accepts them unchanged)"
                )
            )
            context.report.result(
                {
                    "outcome": "unsettled",
                    "patch": stop.patch,
                    "left": [str(each) for each in remaining],
                }
            )
            return ExitCode.CONFLICT
    resumed = resume(context, unfinished)
    if stop is not None:
        decisions[stop.patch] = read_resolution(state, stop, resumed.new)
    return resumed.go_on(decisions)
