# SPDX-License-Identifier: Apache-2.0
"""drift: predict each patch's merge outcome on the given releases, without changing anything."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from tools.importer.commands.context import Context
from tools.importer.commands.forecasting import forecast_of, news_of, target_of
from tools.importer.drift import (
    Section,
    Table,
    Target,
    measure,
    to_document,
    to_explanation,
    to_json,
    to_page,
    to_page_of_projects,
    to_terminal,
    to_text,
    write_report,
)
from tools.importer.engine import read_base
from tools.importer.errors import EnvironmentProblem, ExitCode, UserError
from tools.importer.project import Project, load_project, project_names
from tools.importer.report import Progress, Report
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Snapshot

NAME = "drift"
HELP = "show the outcome of each patch on each of several releases"

_FORMATS: Mapping[str, Callable[[Table], str]] = {
    "text": to_text,
    "json": to_json,
    "html": to_page,
}


# Options that cannot be used with --all-projects.
_OF_ONE = ("ref", "origin", "series", "explain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("labels", nargs="*", metavar="TAG", help="a release, as in v2.14.1")
    parser.add_argument(
        "--ref", action="append", default=[], help="a branch or commit in addition to releases"
    )
    parser.add_argument("--origin", help="use only this origin; see `import.py import --help`")
    parser.add_argument(
        "--series",
        metavar="TAG",
        help="the release whose series to compare (default: the pinned one)",
    )
    parser.add_argument("--format", choices=sorted(_FORMATS), default="text")
    parser.add_argument(
        "--explain", metavar="PATCH", help="show the reasons for one patch instead of the table"
    )
    parser.add_argument("--output", metavar="FILE", help="write to this file, not to the terminal")
    parser.add_argument(
        "--all-projects",
        action="store_true",
        help="show all projects: the newest release of each, and branches that have moved",
    )
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 2 if a patch needs a decision"
    )


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    if args.all_projects:
        return _all_projects(args, context)
    releases = [(f"--tag {label}", {"tag": label}) for label in dict.fromkeys(args.labels)]
    releases += [(f"--ref {ref}", {"ref": ref}) for ref in dict.fromkeys(args.ref)]
    if not releases:
        raise UserError("no release is named. Name one or more: `import.py drift v2.14.1`")
    if args.explain and args.format != "text":
        raise UserError(f"--explain prints text, not {args.format}. Leave --format out")
    report, project = context.report, context.project
    series = _series(project, args.series)
    base = read_base(series.root)
    # If a JSON or HTML document is written to standard output, print nothing else there.
    alone = args.format != "text" and args.output is None
    origins = _Quiet(report) if alone else report

    def targets() -> Iterator[Target]:
        with report.progress("Comparing releases", len(releases)) as progress:
            for options, name in releases:
                options, snapshot = _snapshot(context, options, name, args.origin, origins)
                yield target_of(series, base, options, snapshot)
                progress.advance()

    from tools.importer.session import decide_rewrites, read_known_calls, settlements_of

    known = read_known_calls(project)
    table = measure(
        series,
        base,
        targets(),
        remake=lambda patches, tree: decide_rewrites(patches, tree, known),
        settlements=settlements_of(project),
    )
    _write(args, context, _text(args, table), table)
    report.result(to_document(table))
    return ExitCode.CONFLICT if args.exit_code and table.stops else ExitCode.DONE


def _all_projects(args: argparse.Namespace, context: Context) -> ExitCode:
    for name, value in (
        ("TAG", args.labels),
        *((f"--{key}", getattr(args, key)) for key in _OF_ONE),
    ):
        if value:
            raise UserError(f"--all-projects takes no {name}. Name one project with --project")
    report, workspace = context.report, context.project.workspace
    sections: list[Section] = []
    failed = False
    for name in project_names(workspace):
        # If one project fails, still show the results for the others.
        try:
            project = load_project(workspace, name)
            news = news_of(project, report)
            table = forecast_of(project, news, report, every=False)
            sections.append(Section(name, table, f"{news.current}: nothing is newer upstream"))
        except (UserError, EnvironmentProblem) as error:
            sections.append(Section(name, None, f"cannot be asked: {error}"))
            failed = True
    texts = {"html": to_page_of_projects, "json": _json_of_projects, "text": _text_of_projects}
    _write(args, context, texts[args.format](sections), None)
    report.result(_document_of_projects(sections))
    stops = any(each.table is not None and each.table.stops for each in sections)
    if failed:
        return ExitCode.USER_ERROR
    return ExitCode.CONFLICT if args.exit_code and stops else ExitCode.DONE


def _document_of_projects(sections: Sequence[Section]) -> dict[str, object]:
    return {
        "projects": {
            each.project: {"note": each.note} if each.table is None else to_document(each.table)
            for each in sections
        }
    }


def _json_of_projects(sections: Sequence[Section]) -> str:
    return json.dumps(_document_of_projects(sections), indent=1) + "\n"


def _text_of_projects(sections: Sequence[Section]) -> str:
    parts = []
    for each in sections:
        text = f"{each.note}\n" if each.table is None else to_text(each.table)
        parts.append(f"{each.project}\n\n{text}")
    return "\n".join(parts) or "There is no project.\n"


class _Quiet:
    """A Report that shows progress but prints no lines."""

    def __init__(self, below: Report) -> None:
        self._below = below

    def say(self, line: str) -> None:
        """Do nothing, because standard output is reserved for the document."""

    def progress(self, label: str, total: int | None = None) -> AbstractContextManager[Progress]:
        return self._below.progress(label, total)

    def result(self, data: Mapping[str, object]) -> None:
        self._below.result(data)


def _snapshot(
    context: Context, options: str, name: Mapping[str, str], origin: str | None, report: Report
) -> tuple[str, Snapshot]:
    # Imported lazily, because the origins load the git, pip and apt clients.
    from tools.importer.origins import resolve

    if origin is not None:
        options += f" --origin {shlex.quote(origin)}"
        path = context.cwd / origin
        origin = os.fspath(path) if path.exists() else origin
    snapshot = resolve(
        context.project, report, tag=name.get("tag"), ref=name.get("ref"), origin=origin
    )
    return options, snapshot


def _series(project: Project, label: str | None) -> Series:
    label = label or _pinned(project)
    directory = project.series_of(label)
    if not (directory / "series").is_file():
        known = sorted(path.parent.name for path in project.series.glob("*/series"))
        raise UserError(f"{directory}: no series. There are: {', '.join(known) or 'none'}")
    return load_series(directory)


def _pinned(project: Project) -> str:
    """Return the tag of the release in pin.json."""
    try:
        return str(json.loads(project.pin.read_text(encoding="utf-8"))["tag"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{project.pin}: no readable tag ({error!r}). Restore it, or name --series"
        ) from None


def _write(args: argparse.Namespace, context: Context, text: str, table: Table | None) -> None:
    """Write `text` to --output or standard output; a terminal gets a colored `table` instead."""
    report = context.report
    if args.output is None:
        screen = _on_screen(args, table) if table is not None else text
        report.say(screen.removesuffix("\n"))
        return
    file = context.cwd / args.output
    if context.dry_run:
        report.say(f"{file}: would be written, {len(text.encode())} bytes")
    elif write_report(file, text):
        report.say(f"{file}: written")
    else:
        report.say(f"{file}: unchanged")


def _on_screen(args: argparse.Namespace, table: Table) -> str:
    if args.format == "text" and not args.explain and sys.stdout.isatty():
        return to_terminal(table, width=shutil.get_terminal_size().columns)
    return _text(args, table)


def _text(args: argparse.Namespace, table: Table) -> str:
    return to_explanation(table, args.explain) if args.explain else _FORMATS[args.format](table)
