# SPDX-License-Identifier: Apache-2.0
"""vendor: commit the patched tree to a monorepo as one commit with labels (see labels.py)."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from tools.importer.commands.context import Access, Context
from tools.importer.editing import open_release
from tools.importer.engine import apply_to_snapshot
from tools.importer.errors import ExitCode
from tools.importer.git_repo import (
    Destination,
    LocalEditsError,
    Outcome,
    Person,
    Repository,
    Result,
    Source,
    fixup_patch,
    parse_person,
    vendor,
    write_file,
)
from tools.importer.snapshot import OverlaySnapshot

NAME = "vendor"
HELP = "commit the patched tree into a monorepo, as one commit with labels"
ACCESS = Access.READS

_KEEP = "{project}/google/**"
_AUTHOR = Person("importer", "importer@invalid")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--into", metavar="REPO", required=True, help="the monorepo: a git repository"
    )
    parser.add_argument(
        "--at",
        metavar="DIR",
        required=True,
        help="the tree's directory there: third_party/py/NAME",
    )
    parser.add_argument(
        "--keep",
        metavar="GLOB",
        action="append",
        help="never change these paths below DIR; may be repeated (default: PROJECT/google/**)",
    )
    parser.add_argument("--branch", help="the branch to commit to (default: the checked-out one)")
    parser.add_argument(
        "--author", metavar="'NAME <ADDRESS>'", help=f"author of the commit (default: {_AUTHOR})"
    )
    parser.add_argument(
        "--fixup",
        metavar="FILE",
        help="write committed edits that are in no patch to FILE, as a new patch, and stop",
    )
    parser.add_argument("--series", metavar="LABEL", help="the series (default: the build's)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    project, report = context.project, context.report
    author = parse_person(args.author) if args.author else _AUTHOR
    repository = Repository.open(context.cwd / args.into)
    release = open_release(project, report, args.series)
    series, snapshot = release.series, release.snapshot
    patched = apply_to_snapshot(series, snapshot, absent=release.base.absent)
    source = Source(
        project.name,
        release.label,
        snapshot.commit or release.base.commit,
        series.digest,
        len(series.patches),
        OverlaySnapshot(snapshot, patched),
    )
    branch = f"refs/heads/{args.branch.removeprefix('refs/heads/')}" if args.branch else None
    keep = [_KEEP.format(project=project.name)] if args.keep is None else args.keep
    destination = Destination(args.at, keep, branch)
    try:
        result = vendor(
            repository,
            source,
            destination,
            author=author,
            when=datetime.datetime.now(datetime.UTC),
            report=report,
            dry_run=context.dry_run,
        )
    except LocalEditsError as error:
        if not args.fixup:
            raise
        return _fix_up(context, error, context.cwd / args.fixup, destination.path)
    finally:
        repository.close()
    return _tell(context, result, repository)


def _fix_up(context: Context, error: LocalEditsError, file: Path, destination: str) -> ExitCode:
    if not context.dry_run:
        write_file(file, fixup_patch(error.edits, destination))
    for edit in error.edits:
        context.report.say(f"edited  {edit.path}")
    context.report.say(
        f"{file}: fill in its header and put it at the end of the series; vendor then"
    )
    context.report.result(
        {"outcome": "fixup", "file": str(file), "edits": [edit.path for edit in error.edits]}
    )
    return ExitCode.DONE


def _tell(context: Context, result: Result, repository: Repository) -> ExitCode:
    report, difference = context.report, result.difference
    if result.caught_up:
        report.say("finished the working tree of an interrupted vendor")
    counts = (
        f"{len(difference.added)} added, {len(difference.changed)} changed, "
        f"{len(difference.deleted)} deleted"
    )
    where = f"{repository.path} {result.ref.removeprefix('refs/heads/')}"
    commit = f" {result.commit[:12]}" if result.commit else ""
    report.say(f"{where}: {result.outcome.value}{commit}: {counts}")
    report.result(
        {
            "outcome": result.outcome.value,
            "ref": result.ref,
            "commit": result.commit,
            "added": difference.added,
            "changed": difference.changed,
            "deleted": difference.deleted,
            "caught_up": result.caught_up,
        }
    )
    unchanged = result.outcome is Outcome.UNCHANGED and not result.caught_up
    return ExitCode.NOTHING_TO_DO if unchanged else ExitCode.DONE
