# SPDX-License-Identifier: Apache-2.0
"""sync: for every project, show what is new upstream, and what would become of each patch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tools.importer.commands.context import Access, Context, Scope
from tools.importer.drift import Table, Target, measure, to_document, to_text
from tools.importer.engine import read_base
from tools.importer.errors import EnvironmentProblem, ExitCode, UserError
from tools.importer.project import Project, load_project, project_names
from tools.importer.report import Report
from tools.importer.series import load_series
from tools.importer.session import (
    current_label,
    decide_rewrites,
    read_branches,
    read_known_calls,
    settlements_of,
)

NAME = "sync"
HELP = "for every project: what is new upstream, and what would become of each patch"
ACCESS = Access.READS
SCOPE = Scope.WORKSPACE


@dataclass(frozen=True)
class _News:
    """Upstream's changes in one project: newer tags, and the heads of branches that have moved."""

    current: str
    tags: list[str]
    heads: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="PROJECT", nargs="*", help="only these projects")
    parser.add_argument(
        "--all", action="store_true", help="compare with every newer release, not only the newest"
    )


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    report, workspace = context.report, context.project.workspace
    known = project_names(workspace)
    for name in args.names:
        if name not in known:
            raise UserError(f"no project '{name}'. There are: {', '.join(known) or 'none'}")
    rows: dict[str, object] = {}
    codes = set()
    for name in args.names or known:
        # If one project fails, still show the others.
        try:
            project = load_project(workspace, name)
            news = _news(project, report)
            table = _forecast(project, news, report, every=args.all)
        except (UserError, EnvironmentProblem) as error:
            report.say(f"{name}: cannot be asked: {error}")
            rows[name] = {"error": str(error)}
            is_environment = isinstance(error, EnvironmentProblem)
            codes.add(ExitCode.ENVIRONMENT if is_environment else ExitCode.USER_ERROR)
            continue
        rows[name] = _tell(name, news, table, report)
        codes.add(ExitCode.DONE if news.tags or news.heads else ExitCode.NOTHING_TO_DO)
    report.result({"projects": rows})
    failures = codes & {ExitCode.USER_ERROR, ExitCode.ENVIRONMENT}
    if failures:
        return max(failures)
    return ExitCode.DONE if ExitCode.DONE in codes else ExitCode.NOTHING_TO_DO


def _news(project: Project, report: Report) -> _News:
    # Imported lazily, because origins import git, pip and apt.
    from tools.importer.origins import head_of, order_of, releases

    current = current_label(project)
    heads = {}
    with report.progress(f"Asking for news of {project.name}"):
        tags = releases(project)
        for branch, last in read_branches(project).items():
            head = head_of(project, branch)
            if head != last.commit:
                heads[branch] = head
    version = project.version_of(current)
    if version is not None:
        tags = [tag for tag in tags if order_of(tag) > order_of(version)]
    return _News(current, tags, heads)


def _forecast(project: Project, news: _News, report: Report, *, every: bool) -> Table | None:
    from tools.importer.origins import resolve

    wanted = [("--tag", "tag", tag) for tag in (news.tags if every else news.tags[-1:])]
    wanted += [("--ref", "ref", branch) for branch in news.heads]
    if not wanted:
        return None
    series = load_series(project.series_of(news.current))
    known = read_known_calls(project)
    targets = (
        Target(f"{option} {name}", resolve(project, _Silent(report), **{key: name}))
        for option, key, name in wanted
    )
    return measure(
        series,
        read_base(series.root),
        targets,
        remake=lambda patches, tree: decide_rewrites(patches, tree, known),
        settlements=settlements_of(project),
    )


def _tell(name: str, news: _News, table: Table | None, report: Report) -> dict[str, object]:
    newest = f", newest {news.tags[-1]}" if news.tags else ""
    branches = "".join(f"; {branch} is at {head[:12]}" for branch, head in news.heads.items())
    count = len(news.tags)
    report.say(
        f"{name}: {news.current}, {count or 'no'} newer"
        f" {'release' if count == 1 else 'releases'}{newest}{branches}"
    )
    for line in to_text(table).splitlines() if table else ():
        report.say(f"  {line}".rstrip())
    return {
        "current": news.current,
        "newer": news.tags,
        "branches": news.heads,
        "forecast": to_document(table) if table else None,
    }


class _Silent:
    """A report that drops its lines: sync need not say which origin had a release."""

    def __init__(self, below: Report) -> None:
        self.progress = below.progress
        self.result = below.result

    def say(self, line: str) -> None:
        """Do nothing."""
