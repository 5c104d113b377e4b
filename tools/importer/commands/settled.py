# SPDX-License-Identifier: Apache-2.0
"""settled: list the stored conflict resolutions that imports reuse, or delete one."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Context
from tools.importer.commands.summary import change_lines, changes_data
from tools.importer.errors import ExitCode
from tools.importer.session import Transaction, find_settlements, read_settlements

NAME = "settled"
HELP = "list the resolved conflicts that later imports reuse, or forget one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--forget", metavar="ID", help="delete this resolution, or all of a patch")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    project, report = context.project, context.report
    if args.forget:
        return _forget(args.forget, context)
    known = list(read_settlements(project).values())
    for each in known:
        files = ", ".join(each.settlement.paths)
        report.say(f"{each.id}  {each.patch}  {each.old} -> {each.new}  ({files})")
    if not known:
        report.say(f"{project.name}: no conflict was settled yet")
    report.result(
        {
            "settled": [
                {
                    "id": each.id,
                    "patch": each.patch,
                    "from": each.old,
                    "to": each.new,
                    "files": list(each.settlement.paths),
                }
                for each in known
            ]
        }
    )
    return ExitCode.DONE if known else ExitCode.NOTHING_TO_DO


def _forget(name: str, context: Context) -> ExitCode:
    project, report = context.project, context.report
    what = f"forgetting the settlement {name}"
    transaction = Transaction(project.workspace, project.state, what=what)
    for each in find_settlements(project, name):
        transaction.delete(each.file.relative_to(project.workspace).as_posix())
    changes = transaction.changes() if context.dry_run else transaction.publish()
    for line in change_lines(changes):
        report.say(line)
    report.result({"forgotten": name, "files": changes_data(changes), "dry_run": context.dry_run})
    return ExitCode.DONE
