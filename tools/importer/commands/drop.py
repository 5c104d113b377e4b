# SPDX-License-Identifier: Apache-2.0
"""drop: remove a patch from the patch series, and rebase the patches after it."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Context
from tools.importer.commands.rebasing import go_on
from tools.importer.editing import Kind, SeriesEdit, open_release, position_of
from tools.importer.errors import ExitCode
from tools.importer.session import refuse_unfinished

NAME = "drop"
HELP = "remove a patch from the series, and rebase the later ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patch", metavar="PATCH", help="a name in `series`, with or without .patch")
    parser.add_argument("--series", metavar="LABEL", help="the series (default: the build's)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    refuse_unfinished(context.project.state)
    release = open_release(context.project, context.report, args.series)
    patch = release.series.patches[position_of(release.series, args.patch)]
    edit = SeriesEdit(Kind.DROP, release.label, release.series.digest, patch.name)
    return go_on(context, release, edit, {})
