# SPDX-License-Identifier: Apache-2.0
"""import: rebase our patches onto another upstream release; write them or report a conflict."""

from __future__ import annotations

import argparse
import hashlib

from tools.importer.commands.context import Context
from tools.importer.commands.importing import Import, go_on
from tools.importer.errors import ExitCode, UserError
from tools.importer.names import shown
from tools.importer.session import (
    Source,
    check_committed,
    current_label,
    last_of,
    load_source,
    read_known_calls,
    refuse_unfinished,
)
from tools.importer.snapshot import Snapshot

NAME = "import"
HELP = "carry the series to another upstream release (the default command)"

_LAST = "LAST"
_LISTED = 20  # the maximum number of commits to print; a large project may have more in a day


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", help="the release, as upstream calls it: v2.14.1")
    parser.add_argument("--ref", help="a branch or commit of a git origin")
    parser.add_argument("--origin", help="the origin: wheel, debian, a git URL, a path")
    parser.add_argument(
        "--from", dest="source", metavar="LABEL", help="the series to carry (default: the build's)"
    )
    parser.add_argument(
        "--since",
        metavar="LAST",
        help="like --from, and list the upstream commits since then; LAST is the branch's last import",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an existing series of that release"
    )
    parser.add_argument(
        "--ask-again", action="store_true", help="do not reuse resolutions of earlier conflicts"
    )
    parser.add_argument(
        "--allow-dirty", action="store_true", help="import even if there are uncommitted edits"
    )
    parser.add_argument(
        "--acknowledge-licence",
        action="store_true",
        help="accept a changed licence, which you have read",
    )


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    if not (args.tag or args.ref or args.origin):
        raise UserError(
            "what to import? Give --tag, --ref or --origin; see import.py import --help"
        )
    project, report = context.project, context.report
    refuse_unfinished(project.state)
    label = _source(args, context)
    if not args.allow_dirty:
        checked = (project.series, project.pin, project.metadata)
        if not check_committed(project.workspace, checked):
            report.say(f"{project.workspace} is in no git repository: edits cannot be detected")
    source = load_source(project, label)
    # Imported lazily, because the origins load the git, pip and apt clients, which `continue` and
    # `skip` do not need.
    from tools.importer.origins import resolve

    origin = args.origin
    if origin and (context.cwd / origin).exists():
        origin = str(context.cwd / origin)
    new = resolve(project, report, tag=args.tag, ref=args.ref, origin=origin)
    extra = _arrivals(args, context, source, new)
    work = Import(
        label,
        source.digest,
        new.label,
        dict(new.pin),
        overwrite=args.overwrite,
        acknowledge_licence=args.acknowledge_licence,
        known_calls=hashlib.sha256(read_known_calls(project)).hexdigest(),
        ask_again=args.ask_again,
    )
    return go_on(context, work, source, new, {}, extra)


def _arrivals(
    args: argparse.Namespace, context: Context, source: Source, new: Snapshot
) -> dict[str, object]:
    """Print the upstream commits since the old base, and return them as JSON data.

    Return {} without --since, or if the old and new trees are not commits of a git branch.
    """
    ref, url = new.pin.get("ref"), new.pin.get("url")
    old = source.base.commit if source.base else None
    if not args.since or not (isinstance(ref, str) and isinstance(url, str) and old and new.commit):
        return {}
    from tools.importer.git_repo import open_history
    from tools.importer.origins.cache import user_cache

    history = open_history(url, user_cache().root / "git", context.report)
    try:
        commits = history.between(old, new.commit, ref)
    finally:
        history.repository.close()
    count = len(commits)
    context.report.say(
        f"{count} upstream {'commit' if count == 1 else 'commits'} since {old[:12]}:"
    )
    for each in commits[:_LISTED]:
        context.report.say(f"  {each.commit[:12]} {shown(each.title)}")
    if count > _LISTED:
        context.report.say(f"  and {count - _LISTED} more; --json lists them all")
    return {"commits": [{"commit": each.commit, "title": each.title} for each in commits]}


def _source(args: argparse.Namespace, context: Context) -> str:
    """Return the label of the patch series to rebase.

    Raises UserError if both --from and --since are given, or if --since LAST finds no import.
    """
    project, report = context.project, context.report
    if args.source and args.since:
        raise UserError("both --from and --since are given. Give one")
    chosen: str | None = args.source or args.since
    if chosen and (chosen != _LAST or not args.since):
        return chosen
    last = last_of(project, args.ref)
    if last is not None:
        report.say(f"since the last import from {args.ref}, {last.label}")
        return last.label
    if args.since:
        raise UserError(
            f"--since {_LAST}: {project.series} has no import from "
            f"{args.ref or 'a branch (give --ref)'}. Name the series with --from"
        )
    return current_label(project)
