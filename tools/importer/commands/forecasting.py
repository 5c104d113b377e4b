# SPDX-License-Identifier: Apache-2.0
"""Shared code of `sync` and `drift --all-projects`: news of a project, and a forecast for it."""

from __future__ import annotations

from dataclasses import dataclass

from tools.importer.drift import Table, Target, measure
from tools.importer.engine import Base, read_base
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import Series, load_series
from tools.importer.session import (
    check_watched,
    current_label,
    decide_rewrites,
    read_branches,
    read_known_calls,
    settlements_of,
)
from tools.importer.snapshot import Snapshot


@dataclass(frozen=True)
class News:
    """The news of one project: newer tags, and the heads of branches that have moved."""

    current: str
    tags: list[str]
    heads: dict[str, str]


def news_of(project: Project, report: Report) -> News:
    """Return what is new upstream. Raises UserError or EnvironmentProblem."""
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
    return News(current, tags, heads)


def forecast_of(project: Project, news: News, report: Report, *, every: bool) -> Table | None:
    """Return the outcomes for the newest release, or for all; None if nothing is new."""
    from tools.importer.origins import resolve

    wanted = [("--tag", "tag", tag) for tag in (news.tags if every else news.tags[-1:])]
    wanted += [("--ref", "ref", branch) for branch in news.heads]
    if not wanted:
        return None
    series = load_series(project.series_of(news.current))
    known = read_known_calls(project)
    base = read_base(series.root)
    targets = (
        target_of(
            series, base, f"{option} {name}", resolve(project, _Silent(report), **{key: name})
        )
        for option, key, name in wanted
    )
    return measure(
        series,
        base,
        targets,
        remake=lambda patches, tree: decide_rewrites(patches, tree, known),
        settlements=settlements_of(project),
    )


def target_of(series: Series, base: Base, options: str, snapshot: Snapshot) -> Target:
    """Return a release to compare with, with the landed patches that it has reverted."""
    watched = check_watched(series, base, snapshot)
    return Target(options, watched.tree(snapshot), tuple(watched.returned))


class _Silent:
    """A report that drops its lines, which would name the origin of each release."""

    def __init__(self, below: Report) -> None:
        self.progress = below.progress
        self.result = below.result

    def say(self, line: str) -> None:
        """Do nothing."""
