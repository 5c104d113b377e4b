# SPDX-License-Identifier: Apache-2.0
"""new: start a patch anywhere in the series, with a header template to fill in."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence

from tools.importer.commands.context import Context
from tools.importer.commands.rebasing import begin
from tools.importer.editing import (
    Kind,
    Release,
    SeriesEdit,
    new_header,
    open_release,
    patch_name,
    position_of,
    tree_up_to,
)
from tools.importer.errors import ExitCode, UserError
from tools.importer.series import PATCH_NAME, REASONS
from tools.importer.session import refuse_unfinished
from tools.importer.session.rewritten import HEADER
from tools.importer.snapshot import OverlaySnapshot

NAME = "new"
HELP = "begin a new patch; `refresh` makes it and rebases the later ones"

_HEADERS = {
    "owner": ("Owner", "the team or person responsible"),
    "reason": ("Reason", " | ".join(REASONS)),
    "upstream": ("Upstream", "a link, or when it can be dropped"),
    "extension_point": ("Extension-point-considered", "which, and why it is not enough"),
    "test": ("Test", "the test that fails without it"),
    "expires": ("Expires", "its last day, YYYY-MM-DD"),
    "budget": ("Budget", "lines that it may add, as in '12 lines, 2 files'"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", metavar="SUBJECT", help="what it makes upstream do")
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="upstream paths to lay out, instead of all"
    )
    parser.add_argument("--after", metavar="PATCH", help="its place in the series (the end)")
    parser.add_argument("--first", action="store_true", help="before all other patches")
    parser.add_argument("--name", help="of the file (made from the subject)")
    parser.add_argument("--series", metavar="LABEL", help="of that release (the one of the build)")
    for key, (_, text) in _HEADERS.items():
        parser.add_argument(f"--{key.replace('_', '-')}", help=text)


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    refuse_unfinished(context.project.state)
    if args.after and args.first:
        raise UserError("both --after and --first are given. Give one")
    values = {key: getattr(args, name) or "" for name, (key, _) in _HEADERS.items()}
    header = new_header(args.subject, values)
    name = args.name or patch_name(args.subject)
    name = name if name.endswith(".patch") else f"{name}.patch"
    if not PATCH_NAME.fullmatch(name):
        raise UserError(f"'{name}' is no name of a patch. Use <subject>.patch in kebab case")
    release = open_release(context.project, context.report, args.series)
    patches = release.series.patches
    if any(patch.name == name for patch in patches):
        raise UserError(f"{release.directory / name}: is there already. Use edit, or --name")
    count = 0 if args.first else len(patches)
    if args.after:
        count = position_of(release.series, args.after) + 1
    for patch in patches[count:]:
        if HEADER in patch.header:
            raise UserError(
                f"{patch.name}: is made by a rewrite, from upstream's own files, so it stands before "
                f"written patches. Use --after {patch.name.removesuffix('.patch')}"
            )
    _check_files(release, count, args.files)
    edit = SeriesEdit(
        Kind.INSERT,
        release.label,
        release.series.digest,
        name,
        after=patches[count - 1].name if count else None,
    )
    return begin(context, release, edit, count, header, args.files)


def _check_files(release: Release, count: int, files: Sequence[str]) -> None:
    if not files:
        return
    known = set(OverlaySnapshot(release.snapshot, tree_up_to(release, count)).paths())
    for path in files:
        if path not in known:
            near = difflib.get_close_matches(path, known, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else " Paths are upstream's"
            raise UserError(f"{release.label} has no file '{path}' in this origin.{hint}")
