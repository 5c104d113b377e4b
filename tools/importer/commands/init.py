# SPDX-License-Identifier: Apache-2.0
"""init: start importing a project, with an empty patch series for one release."""

from __future__ import annotations

import argparse

from tools.importer.beginning import (
    FirstOrigin,
    first_files,
    layout_of,
    parse_origin,
    read_package_info,
)
from tools.importer.commands.context import Context, Scope
from tools.importer.commands.summary import change_lines, changes_data
from tools.importer.errors import ExitCode, UserError
from tools.importer.project import Project, check_project_name, parse_project
from tools.importer.selection import whole
from tools.importer.session import Transaction, refuse_unfinished
from tools.importer.snapshot import Snapshot

NAME = "init"
HELP = "begin to import a project: its settings, pin, metadata and an empty series"
SCOPE = Scope.WORKSPACE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the project's name, a folder of third_party")
    parser.add_argument(
        "--origin",
        required=True,
        help="pypi:NAME==VERSION (the sdist), wheel:NAME==VERSION, debian:PACKAGE==VERSION, a git "
        "URL, an archive or a directory",
    )
    parser.add_argument("--tag", help="the release, as upstream calls it; needed for git and paths")
    parser.add_argument("--at", metavar="DIR", help="its folder (default: third_party/NAME)")
    parser.add_argument("--tags", metavar="PATTERN", help="the form of tags, as in 'v{version}'")
    parser.add_argument(
        "--include", metavar="GLOB", action="append", help="import only these (default: packages)"
    )
    parser.add_argument("--exclude", metavar="GLOB", action="append", help="omit these files")
    parser.add_argument(
        "--move",
        metavar="OLD/=NEW/",
        action="append",
        help="rename a folder (default: src/= if any)",
    )
    parser.add_argument("--licence", metavar="SPDX", help="its licence (default: what it states)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    workspace, report = context.project.workspace, context.report
    refuse_unfinished(context.project.state)
    check_project_name(args.name)
    room = workspace / "third_party" / args.name
    if args.at and (context.cwd / args.at).resolve() != room and workspace / args.at != room:
        raise UserError(f"--at {args.at}: projects are in third_party. Use third_party/{args.name}")
    first = parse_origin(args.origin, args.tag, args.tags, context.cwd)
    settings: dict[str, object] = {"name": args.name, "tags": first.tags, "origins": first.origins}
    _check_new(parse_project(workspace, args.name, settings))
    # Imported lazily, because the origins load the git, pip and apt clients.
    from tools.importer.origins import OriginSnapshot, resolve, select

    bare = parse_project(workspace, args.name, settings)
    upstream = whole(resolve(bare, report, tag=first.tag, origin=first.origin))
    settings |= _selection(args, upstream, first)
    info = read_package_info(upstream)
    if info.repository and first.origins and "git" not in first.origins:
        # Record upstream's git repository, because `cherry-pick` and `export` need it.
        settings["origins"] = {**first.origins, "git": {"url": info.repository}}
    licence = args.licence or info.licence
    if licence:
        settings["licence"] = {"expression": licence}
    project = parse_project(workspace, args.name, settings)
    assert isinstance(upstream, OriginSnapshot), "origins return OriginSnapshots"
    tree = select(project, upstream)
    if not tree.paths():
        raise UserError(
            f"{tree.label} has no file that is included. Give other globs with --include"
        )
    files = first_files(project, settings, tree, info, report)
    transaction = Transaction(workspace, project.state, what=f"the start of {args.name}")
    for path, data in files.items():
        if not (workspace / path).exists() or path.endswith(("pin.json", "spdx.json")):
            transaction.write(path, data)
    pin_path = project.pin.relative_to(workspace).as_posix()
    changes = transaction.changes() if context.dry_run else transaction.publish(last=[pin_path])
    for line in change_lines(changes):
        report.say(line)
    if not licence:
        report.say(
            f"{project.metadata}: upstream states no licence. Read it, and correct license_type and"
            " license_note"
        )
    report.say(
        f"{args.name} is at {tree.label}, {len(tree.paths())} files. Next: import.py --project "
        f"{args.name} new 'SUBJECT'"
    )
    report.result(
        {
            "outcome": "would begin" if context.dry_run else "begun",
            "project": args.name,
            "label": tree.label,
            "origin": dict(tree.pin),
            "files": changes_data(changes),
            "licence": licence,
        }
    )
    return ExitCode.DONE


def _check_new(project: Project) -> None:
    for file in (project.file, project.pin):
        if file.exists():
            raise UserError(
                f"{file}: already exists. Import another release with `import.py --project "
                f"{project.name} --tag TAG`"
            )


def _selection(
    args: argparse.Namespace, upstream: Snapshot, first: FirstOrigin
) -> dict[str, object]:
    """Return `include`, `exclude` and `move` from the arguments or, if omitted, as proposed."""
    moves = dict(first.moves)
    for text in args.move or ():
        old, equals, new = text.partition("=")
        if not equals:
            raise UserError(f"--move {text}: not OLD/=NEW/. Write src/= to remove a prefix")
        moves[old] = new
    include = args.include
    if include is None:
        layout = layout_of(upstream)
        include = list(layout.include)
        moves = moves or dict(layout.move)
    chosen = {"include": include, "exclude": args.exclude, "move": moves}
    return {key: value for key, value in chosen.items() if value}
