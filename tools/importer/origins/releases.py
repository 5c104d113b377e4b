# SPDX-License-Identifier: Apache-2.0
"""List upstream's releases, oldest first, without downloading them."""

from __future__ import annotations

import re

from third_party.pypi import sdist
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import git_origin, wheel
from tools.importer.origins import sdist as sdist_origin
from tools.importer.origins.cache import user_cache
from tools.importer.origins.git_mirror import GitError, GitMirror
from tools.importer.origins.wheel import setting
from tools.importer.project import Project

_FINAL = re.compile(r"\d+(?:\.\d+)*(?:\.?post\d+)?")


def releases(project: Project) -> list[str]:
    """Return the tags of all final releases that the project's origins list.

    Raises UserError if none of the origins can list releases, and EnvironmentProblem if none can be
    reached.
    """
    versions: set[str] = set()
    asked = False
    problems: list[str] = []
    for kind, lister in _LISTERS.items():
        if kind not in project.origins:
            continue
        asked = True
        try:
            versions |= set(lister(project))
        except (sdist.SdistError, GitError) as error:
            problems.append(str(error))
    if not asked:
        raise UserError(
            f"{project.file}: key 'origins' has none that lists its releases. Add one of"
            f" {', '.join(_LISTERS)}"
        )
    if problems and not versions:
        raise EnvironmentProblem("; ".join(problems))
    final = sorted(filter(_FINAL.fullmatch, versions), key=order_of)
    return [project.tag_of(version) for version in final]


def head_of(project: Project, branch: str) -> str:
    """Return the commit at the head of a branch.

    Raises UserError if there is no such branch, and EnvironmentProblem if git fails.
    """
    url = setting(project, git_origin.KIND, "url")
    name = f"refs/heads/{branch}"
    try:
        commit = GitMirror(url, user_cache()).refs(name).get(name)
    except GitError as error:
        raise EnvironmentProblem(f"{url}: {error}") from error
    if commit is None:
        raise UserError(f"{url}: no branch '{branch}'. Import another one with --ref")
    return commit


def order_of(version: str) -> tuple[int, ...]:
    """Return a key that sorts versions numerically."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _sdists(project: Project) -> list[str]:
    return sdist.versions(setting(project, sdist_origin.KIND, "project"))


def _wheels(project: Project) -> list[str]:
    return sdist.wheel_versions(setting(project, wheel.KIND, "project"))


def _tags(project: Project) -> list[str]:
    mirror = GitMirror(setting(project, git_origin.KIND, "url"), user_cache())
    names = (name.removeprefix("refs/tags/") for name in mirror.refs("refs/tags/*"))
    return [version for name in names if (version := project.version_of(name))]


_LISTERS = {sdist_origin.KIND: _sdists, wheel.KIND: _wheels, git_origin.KIND: _tags}
