# SPDX-License-Identifier: Apache-2.0
"""Find new upstream releases and predict each patch's outcome, for `sync` and `drift`."""

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
    """Upstream news for one project: tags newer than `since`, and the heads of changed branches.

    `since` is `current`, or the newest release with a patch series if `current` is a commit on a
    branch.
    """

    current: str
    since: str | None
    tags: list[str]
    heads: dict[str, str]


def news_of(project: Project, report: Report) -> News:
    """Return the new upstream tags and branch heads since the project's current release."""
    # Imported lazily, because the origins load the git, pip and apt clients.
    from tools.importer.origins import head_of, order_of, releases

    current = current_label(project)
    since = current if project.version_of(current) is not None else _newest_release(project)
    heads = {}
    with report.progress(f"Asking for news of {project.name}"):
        tags = releases(project)
        for branch, last in read_branches(project).items():
            head = head_of(project, branch)
            if head != last.commit:
                heads[branch] = head
    version = project.version_of(since) if since is not None else None
    if version is not None:
        tags = [tag for tag in tags if order_of(tag) > order_of(version)]
    return News(current, since, tags, heads)


def forecast_of(project: Project, news: News, report: Report, *, every: bool) -> Table | None:
    """Return the patch outcomes on the newest release and on changed branches.

    With `every`, include all newer releases. Returns None if upstream has not changed.
    """
    from tools.importer.origins import resolve

    revisions = [("--tag", "tag", tag) for tag in (news.tags if every else news.tags[-1:])]
    revisions += [("--ref", "ref", branch) for branch in news.heads]
    if not revisions:
        return None
    series = load_series(project.series_of(news.current))
    known = read_known_calls(project)
    base = read_base(series.root)
    targets = (
        target_of(
            series, base, f"{option} {name}", resolve(project, _Silent(report), **{key: name})
        )
        for option, key, name in revisions
    )
    return measure(
        series,
        base,
        targets,
        remake=lambda patches, tree: decide_rewrites(patches, tree, known),
        settlements=settlements_of(project),
    )


def _newest_release(project: Project) -> str | None:
    """Return the newest release that has a patch series; None if no release has one.

    The series of a branch commit was rebased from a release's series, so its starting point is not
    newer than this release.
    """
    from tools.importer.origins import order_of

    labels = (path.parent.name for path in project.series.glob("*/series"))
    releases = [label for label in labels if project.version_of(label) is not None]
    return max(releases, key=order_of, default=None)


def target_of(series: Series, base: Base, options: str, snapshot: Snapshot) -> Target:
    """Return the release to check, after applying the landed patches that upstream reverted."""
    watched = check_watched(series, base, snapshot)
    return Target(options, watched.tree(snapshot), tuple(watched.returned))


class _Silent:
    """A Report that prints no lines, because they would only name each release's origin."""

    def __init__(self, below: Report) -> None:
        self.progress = below.progress
        self.result = below.result

    def say(self, line: str) -> None:
        """Do nothing."""
