# SPDX-License-Identifier: Apache-2.0
"""edit: write the tree with all patches up to the given one applied, for the user to edit."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Context
from tools.importer.commands.rebasing import begin
from tools.importer.editing import (
    Kind,
    SeriesEdit,
    open_release,
    position_of,
    refuse_absent,
    refuse_generated,
)
from tools.importer.engine import header_of
from tools.importer.errors import ExitCode
from tools.importer.session import refuse_unfinished

NAME = "edit"
HELP = "change a patch in the middle of the series; `refresh` rebases the later ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patch", metavar="PATCH", help="a name in `series`, with or without .patch")
    parser.add_argument("--series", metavar="LABEL", help="the series (default: the build's)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    refuse_unfinished(context.project.state)
    release = open_release(context.project, context.report, args.series)
    index = position_of(release.series, args.patch)
    patch = release.series.patches[index]
    refuse_generated(patch)
    refuse_absent(release, patch)
    edit = SeriesEdit(Kind.REPLACE, release.label, release.series.digest, patch.name)
    header = header_of((release.directory / patch.name).read_bytes())
    return begin(context, release, edit, index + 1, header, [])
