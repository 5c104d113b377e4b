# SPDX-License-Identifier: Apache-2.0
"""cherry-pick: add one upstream change, a commit or a pull request, to the patch series."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tools.importer.commands.context import Context
from tools.importer.editing import open_release, pinned_wheel, publication
from tools.importer.errors import ExitCode, UserError
from tools.importer.git_repo import (
    Header,
    PickConflictError,
    cherry_pick,
    open_history,
    write_file,
)
from tools.importer.origins.cache import user_cache
from tools.importer.session import Transaction, refuse_unfinished
from tools.importer.snapshot import EXECUTABLE, SYMLINK

NAME = "cherry-pick"
HELP = "add an upstream change to the series; an import drops it once the release has it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reference",
        metavar="CHANGE",
        help="a commit or a unique prefix of one, or a pull request's number or address",
    )
    parser.add_argument("--owner", required=True, help="the team or person responsible")
    parser.add_argument("--subject", help="the patch's subject (default: the commit's title)")
    parser.add_argument(
        "--extension-point", help="the extension point considered, and why it does not suffice"
    )
    parser.add_argument("--test", help="a test that fails without the patch (default: upstream's)")
    parser.add_argument(
        "--expires", metavar="YYYY-MM-DD", help="the date by which the patch must be removed"
    )
    parser.add_argument(
        "--origin", metavar="URL", help="upstream's repository (default: import.json's git)"
    )
    parser.add_argument("--series", metavar="LABEL", help="the series (default: the build's)")
    settle = parser.add_mutually_exclusive_group()
    settle.add_argument("--to-edit", metavar="DIR", help="on a conflict, write the files to DIR")
    settle.add_argument("--from-edit", metavar="DIR", help="take the resolved files from DIR")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    project, report = context.project, context.report
    refuse_unfinished(project.state)
    header = Header(args.owner, args.subject, args.extension_point, args.test, args.expires)
    resolved = context.cwd / args.from_edit if args.from_edit else None
    if resolved and not resolved.is_dir():
        raise UserError(f"--from-edit {resolved}: no such directory. Make it with --to-edit")
    history = open_history(_origin(args, context), user_cache().root / "git", report)
    try:
        release = open_release(project, report, args.series)
        change = history.find(args.reference)
        picked = cherry_pick(
            history.repository, change, release.series, release.snapshot, header, resolved=resolved
        )
    except PickConflictError as error:
        if not args.to_edit or context.dry_run:
            raise
        return _lay_out(context, error, context.cwd / args.to_edit)
    finally:
        history.repository.close()
    for path in picked.left_out:
        report.say(f"left out  {path}: this origin of {release.label} lacks such files")
    answer = {
        "commit": change.commit,
        "title": change.title,
        "link": change.link,
        "patch": picked.name,
        "paths": picked.paths,
        "left_out": picked.left_out,
    }
    if not picked.files:
        report.say(f"{release.label} with our patches has {change.commit[:12]} already")
        report.result({**answer, "outcome": "nothing to do"})
        return ExitCode.NOTHING_TO_DO
    new = publication(project, release, picked.files, lambda: pinned_wheel(project, report))
    transaction = Transaction(project.workspace, project.state, what=f"cherry-pick {picked.name}")
    new.into(transaction)
    if not context.dry_run:
        transaction.publish(last=new.last)
    verb = "would add" if context.dry_run else "added"
    report.say(f"{verb} {release.directory / picked.name}: {change.title}")
    if new.pinned:
        report.say(f"the build's tree is now {new.pinned}")
    report.result({**answer, "outcome": verb, "tree_hash": new.pinned})
    return ExitCode.DONE


def _origin(args: argparse.Namespace, context: Context) -> str:
    if args.origin:
        path = context.cwd / args.origin
        return os.fspath(path) if path.is_dir() else args.origin
    url = context.project.origins.get("git", {}).get("url")
    if not url:
        raise UserError(
            f"{context.project.file}: key 'origins' has no 'git', where upstream's commits are. Add"
            ' "git": {"url": URL}, or name a repository with --origin'
        )
    return url


def _lay_out(context: Context, error: PickConflictError, directory: Path) -> ExitCode:
    for path, blob in error.files.items():
        if blob and blob.mode != SYMLINK:
            write_file(directory / path, blob.data, executable=blob.mode == EXECUTABLE)
    for path in error.conflicts:
        context.report.say(f"conflict  {directory / path}")
    context.report.say(f"resolve these, then run it again with --from-edit {directory}")
    context.report.result(
        {"outcome": "conflict", "conflicts": error.conflicts, "directory": str(directory)}
    )
    return ExitCode.CONFLICT
