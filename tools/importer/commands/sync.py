# SPDX-License-Identifier: Apache-2.0
"""sync: for every project, show new upstream releases and the outcome of each patch on them."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Access, Context, Scope
from tools.importer.commands.forecasting import News, forecast_of, news_of
from tools.importer.drift import to_document, to_text
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
        # If one project fails, still show the results for the others.
        try:
            project = load_project(workspace, name)
            news = news_of(project, report)
        except (UserError, EnvironmentProblem) as error:
            report.say(f"{name}: cannot be asked: {error}")
            rows[name] = {"error": str(error)}
            codes.add(_code_of(error))
            continue
        row = _tell(name, news, report)
        try:
            table = forecast_of(project, news, report, every=args.all)
        except (UserError, EnvironmentProblem) as error:
            report.say(f"  no forecast: {error}")
            row |= {"error": str(error)}
            codes.add(_code_of(error))
        else:
            for line in to_text(table).splitlines() if table else ():
                report.say(f"  {line}".rstrip())
            row |= {"forecast": to_document(table) if table else None}
            codes.add(ExitCode.DONE if news.tags or news.heads else ExitCode.NOTHING_TO_DO)
        rows[name] = row
    report.result({"projects": rows})
    failures = codes & {ExitCode.USER_ERROR, ExitCode.ENVIRONMENT}
    if failures:
        return max(failures)
    return ExitCode.DONE if ExitCode.DONE in codes else ExitCode.NOTHING_TO_DO


def _tell(name: str, news: News, report: Report) -> dict[str, object]:
    newest = f", newest {news.tags[-1]}" if news.tags else ""
    branches = "".join(f"; {branch} is at {head[:12]}" for branch, head in news.heads.items())
    count = len(news.tags)
    noun = "release" if count == 1 else "releases"
    if news.since == news.current:
        text = f"{count or 'no'} newer {noun}"
    else:
        text = f"{count or 'no'} {noun}" + (f" since {news.since}" if news.since else "")
    report.say(f"{name}: {news.current}, {text}{newest}{branches}")
    return {
        "current": news.current,
        "since": news.since,
        "newer": news.tags,
        "branches": news.heads,
    }


def _code_of(error: UserError | EnvironmentProblem) -> ExitCode:
    is_environment = isinstance(error, EnvironmentProblem)
    return ExitCode.ENVIRONMENT if is_environment else ExitCode.USER_ERROR
