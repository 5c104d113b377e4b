# SPDX-License-Identifier: Apache-2.0
"""export: write patches for upstream as branches in a checkout, and the others as mbox files."""

from __future__ import annotations

import argparse
import datetime
import difflib
from collections.abc import Sequence
from pathlib import Path

from tools.importer.commands.context import Access, Context
from tools.importer.editing import series_directory
from tools.importer.engine import read_base
from tools.importer.errors import ExitCode, UserError
from tools.importer.git_repo import (
    Exported,
    Offer,
    Repository,
    State,
    configured_person,
    export_branches,
    export_files,
    is_repository,
)
from tools.importer.series import Series, load_series

NAME = "export"
HELP = "offer patches: a branch each in a checkout of upstream, or files for `git am`"
ACCESS = Access.READS

_FILES = "importer-export"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        metavar="DIR",
        required=True,
        help="a checkout of upstream, for branches; any other directory gets files",
    )
    parser.add_argument(
        "--patch", metavar="NAME", action="append", help="offer only this patch; may be repeated"
    )
    parser.add_argument(
        "--onto", metavar="REVISION", help="start branches here (default: the series' base)"
    )
    parser.add_argument("--force", action="store_true", help="replace branches with other content")
    parser.add_argument(
        "--files",
        metavar="DIR",
        help="write the texts of pull requests, and patches that upstream does not get, to DIR "
        f"(default: .git/{_FILES})",
    )
    parser.add_argument("--series", metavar="LABEL", help="the series (default: the build's)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    directory = series_directory(context.project, args.series)
    series = load_series(directory)
    offer = Offer(
        context.project.name,
        series,
        read_base(directory),
        onto=args.onto,
        force=args.force,
        dry_run=context.dry_run,
        only=[_patch_name(series, name) for name in args.patch or ()],
        selection=context.project.selection,
    )
    target = context.cwd / args.to
    done = (
        _to_repository(offer, target, context.cwd / args.files if args.files else None)
        if is_repository(target)
        else export_files(offer, target, offer.patches)
    )
    return _tell(context, done)


def _to_repository(offer: Offer, target: Path, files: Path | None) -> Sequence[Exported]:
    repository = Repository.open(target)
    files = files or repository.git_dir / _FILES
    internal = [patch for patch in offer.patches if patch.header["Reason"] != "upstream"]
    done: list[Exported] = []
    try:
        if len(internal) < len(offer.patches):
            person = configured_person(repository)
            now = datetime.datetime.now(datetime.UTC)
            done += export_branches(repository, offer, person=person, when=now, bodies=files)
    finally:
        repository.close()
    return [*done, *export_files(offer, files, internal)]


def _patch_name(series: Series, name: str) -> str:
    full = name if name.endswith(".patch") else f"{name}.patch"
    known = [patch.name for patch in series.patches]
    if full in known:
        return full
    near = difflib.get_close_matches(full, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise UserError(f"--patch {name}: {series.root / 'series'} has no such patch.{hint}")


def _tell(context: Context, done: Sequence[Exported]) -> ExitCode:
    for each in done:
        where = (each.ref or "").removeprefix("refs/heads/") or each.file or ""
        note = f": {each.note}" if each.note else ""
        context.report.say(f"{each.state.value:10}{each.patch}  {where}{note}".rstrip())
        if each.ref and each.file and each.state is not State.REFUSED:
            context.report.say(f"{'':10}title: {each.title}; text: {each.file}")
    context.report.result(
        {
            "patches": [
                {
                    "patch": each.patch,
                    "title": each.title,
                    "state": each.state.value,
                    "note": each.note,
                    "ref": each.ref,
                    "commit": each.commit,
                    "file": str(each.file) if each.file else None,
                }
                for each in done
            ]
        }
    )
    states = {each.state for each in done}
    if State.REFUSED in states:
        return ExitCode.USER_ERROR
    return ExitCode.DONE if states & {State.NEW, State.REPLACED} else ExitCode.NOTHING_TO_DO
