# SPDX-License-Identifier: Apache-2.0
"""refresh: update the edited patch from `.import/edit`, and rebase the patches after it."""

from __future__ import annotations

import argparse
from dataclasses import replace

from tools.importer.commands.context import Context
from tools.importer.commands.rebasing import COMMAND, go_on, publish
from tools.importer.editing import (
    Desk,
    Kind,
    Release,
    SeriesEdit,
    anew,
    changed_patch,
    new_patch,
    open_release,
    open_unrecorded,
    pinned_wheel,
    position_of,
    with_subject,
)
from tools.importer.errors import ExitCode, UserError
from tools.importer.series import parse_header
from tools.importer.session import EDITING, read_unfinished, refuse_unfinished

NAME = "refresh"
HELP = "write the patch from the edited files, and rebase the later ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--subject", metavar="SUBJECT", help="the new subject of the patch")
    parser.add_argument(
        "--base",
        action="store_true",
        help="accept the series as edited by hand: record its base and the hash of the build's tree",
    )
    parser.add_argument("--series", metavar="LABEL", help="with --base: the series")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    project, report = context.project, context.report
    if args.base:
        return _record_base(args, context)
    if args.series:
        raise UserError("--series needs --base: the unfinished edit names its release")
    unfinished = read_unfinished(project.state)
    if unfinished is not None and unfinished.command == COMMAND:
        raise UserError(
            f"{unfinished.inputs['name']} is written, and a patch after it waits for your decision. "
            "Run `import.py status`"
        )
    if unfinished is not None and unfinished.project != project.name:
        raise UserError(
            f"{unfinished.command} of {unfinished.project} is unfinished. Name it: "
            f"--project {unfinished.project}"
        )
    if unfinished is None or unfinished.command != EDITING:
        raise UserError(
            "no patch is being edited. Begin with `import.py edit PATCH` or `import.py new SUBJECT`"
        )
    draft = SeriesEdit.from_json(unfinished.inputs)
    release = open_release(project, report, draft.label)
    edit = replace(draft, data=_patch(args, context, release, draft))
    assert edit.data is not None
    if edit.kind is Kind.REPLACE and edit.data == (release.directory / edit.name).read_bytes():
        report.say(f"nothing to do: {edit.name} would stay as it is")
        report.result({"outcome": "nothing to do", "patch": edit.name})
        return ExitCode.NOTHING_TO_DO
    if context.dry_run:
        for line in edit.data.decode("utf-8", "replace").splitlines():
            report.say(line)
    return go_on(context, release, edit, {})


def _patch(
    args: argparse.Namespace, context: Context, release: Release, draft: SeriesEdit
) -> bytes:
    desk = Desk(context.project.state)
    edits = desk.tree.changes(context.report)
    for path, blob in edits.items():
        context.report.say(f"  {'deleted' if blob is None else 'changed'}  {path}")
    header = desk.header()
    if args.subject:
        header = with_subject(header, args.subject)
    # Errors name the file that the user edits, not the patch file generated from it.
    where = desk.header_file.relative_to(context.project.workspace).as_posix()
    parse_header(header.decode("utf-8", "surrogateescape"), where)
    if draft.kind is Kind.REPLACE:
        return changed_patch(release, position_of(release.series, draft.name), header, edits)
    count = 0 if draft.after is None else position_of(release.series, draft.after) + 1
    return new_patch(release, draft.name, count, header, edits)


def _record_base(args: argparse.Namespace, context: Context) -> ExitCode:
    refuse_unfinished(context.project.state)
    release = open_unrecorded(context.project, context.report, args.series)
    edit = SeriesEdit(Kind.REPLACE, release.label, release.series.digest, "base.json")
    with context.report.progress("Proving the series and hashing the tree"):
        result = anew(
            context.project, release, lambda: pinned_wheel(context.project, context.report)
        )
    return publish(context, edit, None, result)
