# SPDX-License-Identifier: Apache-2.0
"""sync: for every project, show new upstream releases and the outcome of each patch on them."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Access, Context, Scope
from tools.importer.commands.forecasting import News, forecast_of, news_of
from tools.importer.drift import Table, to_document, to_text
from tools.importer.errors import EnvironmentProblem, ExitCode, UserError
from tools.importer.project import load_project, project_names
from tools.importer.report import Report

NAME = "sync"
HELP = "for every project: what is new upstream, and what would become of each patch"
ACCESS = Access.READS
SCOPE = Scope.WORKSPACE


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
            news = news_of(project, report)
            table = forecast_of(project, news, report, every=args.all)
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


def _tell(name: str, news: News, table: Table | None, report: Report) -> dict[str, object]:
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
