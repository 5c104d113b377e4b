# SPDX-License-Identifier: Apache-2.0
"""verify: rebuild the pinned tree and list every path that differs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tools.importer.builders import builder_of
from tools.importer.commands.context import Access, Context
from tools.importer.editing import open_release, tree_up_to
from tools.importer.engine import read_base
from tools.importer.errors import ExitCode, UserError
from tools.importer.origins import open_pin
from tools.importer.series import load_series
from tools.importer.snapshot import OverlaySnapshot
from tools.importer.verify import (
    Difference,
    Rebuilt,
    check_base,
    check_vendored,
    compare,
    hash_tree,
    read_vendored,
)

NAME = "verify"
HELP = "rebuild the pinned tree and name every path that differs (exit status 1: some do)"
ACCESS = Access.READS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tree", metavar="DIR", help="compare this tree: the directory of `@PROJECT`, or its site"
    )
    parser.add_argument("--wheel", metavar="FILE", help="use this wheel instead of downloading it")

    parser.add_argument("--into", metavar="REPO", help="compare a vendored tree in this repository")
    parser.add_argument("--at", metavar="DIR", help="with --into: the directory of the tree there")
    parser.add_argument("--branch", help="with --into: the branch (default: the checked-out one)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    project, report = context.project, context.report
    if bool(args.into) != bool(args.at) or (args.branch and not args.into):
        raise UserError("--into names the repository, --at the directory in it. Give both")
    wheel = context.cwd / args.wheel if args.wheel else None
    rebuilt = builder_of(project).rebuild(project, wheel, report)
    differences = [*rebuilt.differences, *_base(context, project.series_of(rebuilt.tag))]
    if args.into:
        differences += _vendored(context, args)
    if args.tree:
        differences += _tree(context, context.cwd / args.tree, rebuilt)
    for difference in differences:
        report.say(str(difference))
    if differences:
        report.say(f"{len(differences)} differences from what {project.pin} and its series say")
    else:
        report.say(
            f"verified: {len(rebuilt.entries)} files of {rebuilt.tag}, tree {rebuilt.tree_hash}"
        )
    report.result(
        {
            "same": not differences,
            "tag": rebuilt.tag,
            "tree_hash": rebuilt.tree_hash,
            "series": rebuilt.series_digest,
            "files": len(rebuilt.entries),
            "differences": [difference.as_json() for difference in differences],
        }
    )
    return ExitCode.USER_ERROR if differences else ExitCode.DONE


def _base(context: Context, directory: Path) -> list[Difference]:
    base = read_base(directory)
    with context.report.progress("Comparing the recorded base"):
        snapshot = open_pin(context.project, context.report, base.pin)
        return check_base(base, load_series(directory), snapshot)


def _vendored(context: Context, args: argparse.Namespace) -> list[Difference]:
    tree = read_vendored(context.cwd / args.into, args.at, args.branch)
    release = open_release(context.project, context.report, tree.labels.tag)
    series = release.series
    files = tree_up_to(release, len(series.patches))
    patched = OverlaySnapshot(release.snapshot, files)
    return check_vendored(tree, patched, series.digest, context.report)


def _tree(context: Context, tree: Path, rebuilt: Rebuilt) -> Iterator[Difference]:
    if rebuilt.tree_hash is None:
        raise UserError(f"{tree} cannot be compared: {rebuilt.differences[0]}. Fix that first")
    if (tree / "site").is_dir():
        tree = tree / "site"
    builder = builder_of(context.project)
    entries = {
        path: entry
        for path, entry in hash_tree(tree, context.report).items()
        if path in rebuilt.entries or not builder.is_generated(context.project, path)
    }
    yield from compare("tree", rebuilt.entries, entries)
