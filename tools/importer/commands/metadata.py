# SPDX-License-Identifier: Apache-2.0
"""metadata: generate or check METADATA files and the bill of materials, from the pins."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tools.importer.commands.context import Context
from tools.importer.errors import ExitCode
from tools.importer.metadata import check_all, write_all

NAME = "metadata"
HELP = "rewrite the METADATA files and the SBOM from the pins"
_CURRENT = "all METADATA files and the bill of materials match the pins"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if any is stale"
    )


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    workspace = context.project.workspace
    if args.check or context.dry_run:
        problems = check_all(workspace)
        for problem in problems:
            context.report.say(str(problem))
        if not problems:
            context.report.say(_CURRENT)
        context.report.result({"problems": [asdict(problem) for problem in problems]})
        if args.check:
            return ExitCode.USER_ERROR if problems else ExitCode.DONE
        return ExitCode.DONE if problems else ExitCode.NOTHING_TO_DO
    written = write_all(workspace)
    for path in written:
        context.report.say(f"wrote {path}")
    if not written:
        context.report.say(_CURRENT)
    context.report.result({"written": written})
    return ExitCode.DONE if written else ExitCode.NOTHING_TO_DO
