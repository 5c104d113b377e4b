# SPDX-License-Identifier: Apache-2.0
"""Choose the origin for an import: the requested one, or else the first that has the release."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import debian, git_origin, local, published, sdist, wheel
from tools.importer.origins.cache import Cache, CacheProblem, user_cache
from tools.importer.origins.debian import DebianOrigin
from tools.importer.origins.git_mirror import is_repository
from tools.importer.origins.git_origin import GitOrigin
from tools.importer.origins.local import ArchiveOrigin, TreeOrigin
from tools.importer.origins.machine_pip import ConstrainedError
from tools.importer.origins.origin import (
    NotHereError,
    Origin,
    OriginSnapshot,
    Pin,
    Revision,
    near,
    text_of,
)
from tools.importer.origins.published import ArchiveUrlOrigin, PathOrigin
from tools.importer.origins.sdist import SdistOrigin
from tools.importer.origins.wheel import (
    SourceWheelOrigin,
    WheelOrigin,
    read_build_pin,
    setting,
    wheel_settings,
)
from tools.importer.project import TREE, Project
from tools.importer.report import Report
from tools.importer.selection import SelectedSnapshot


def resolve(
    project: Project,
    report: Report,
    *,
    tag: str | None = None,
    ref: str | None = None,
    origin: str | None = None,
) -> OriginSnapshot:
    """Return upstream's tree for a tag or ref, and report its origin.

    Also report why other origins were skipped. `origin` may be a kind in import.json (`sdist`,
    `wheel`, `git`, ...), `git+URL`, a directory, a repository or an archive. Raises a UserError
    naming similar tags if the tag is unknown, and EnvironmentProblem if no origin can be reached.
    """
    revision = Revision(tag, ref, project.version_of(tag) if tag else None)
    _check_style(project, tag)
    cache = user_cache()
    candidates = _candidates(project, report, cache, revision, origin)
    passed: list[str] = []
    missing: list[NotHereError] = []
    forbidden: list[ConstrainedError] = []
    for candidate in candidates:
        try:
            snapshot = candidate.find(revision)
        except NotHereError as error:
            missing.append(error)
            passed.append(f"{candidate.title}: {error}")
        except ConstrainedError as error:
            forbidden.append(error)
            passed.append(f"{candidate.title}: {error}")
        except CacheProblem:
            raise
        except EnvironmentProblem as error:
            if os.strerror(errno.ENOSPC) in str(error):  # a tool has reported a full disk
                raise cache.problem(str(error)) from error
            passed.append(f"{candidate.title}: {error}")
        else:
            chosen = select(project, snapshot)
            _tell(report, chosen, candidate, passed)
            return chosen
    if forbidden:
        # Report only the version constraint, because the user can fix it by changing one setting.
        raise UserError(f"{revision.name} of {project.name}: {forbidden[-1]}")
    raise _failure(project, revision, missing, passed)


def open_pin(project: Project, report: Report, pin: Pin) -> OriginSnapshot:
    """Return the pinned tree, cached or downloaded again, after checking it against the pin."""
    kind = text_of(pin, "kind")
    cache = user_cache()
    table: dict[str, Callable[[], Origin]] = {
        wheel.KIND: lambda: _configured(project, _wheels(project, report, cache), wheel.KIND)[0],
        debian.KIND: lambda: DebianOrigin(text_of(pin, "package"), cache, report),
        git_origin.KIND: lambda: GitOrigin(text_of(pin, "url"), cache, report),
        sdist.KIND: lambda: SdistOrigin(text_of(pin, "project"), cache, report),
        published.KIND: lambda: ArchiveUrlOrigin(text_of(pin, "url"), cache, report),
        local.ARCHIVE_KIND: lambda: ArchiveOrigin(None, cache, report),
        local.TREE_KIND: lambda: TreeOrigin(None, report),
    }
    if kind not in table:
        raise UserError(f"no origin of kind '{kind}'. There are: {', '.join(sorted(table))}")
    try:
        return select(project, table[kind]().open(pin))
    except NotHereError as error:
        raise EnvironmentProblem(
            f"the pinned {pin.get('version') or kind} can no longer be had: {error}"
        ) from error


def at_hand(project: Project, report: Report, pin: Pin) -> OriginSnapshot | None:
    """Return the pinned tree if its archive is cached, else None. Nothing is downloaded."""
    if pin.get("kind") not in _CACHED or user_cache().file(text_of(pin, "sha256")) is None:
        return None
    return open_pin(project, report, pin)


# The kinds of pins whose archives are cached by sha256.
_CACHED = (wheel.KIND, sdist.KIND, published.KIND)


def select(project: Project, snapshot: OriginSnapshot) -> OriginSnapshot:
    """Return upstream's tree, reduced to the files that the project selects.

    Its label is the name of the release's patch series if the pin contains a tag or a commit.
    """
    label = project.label_of(snapshot.pin) or snapshot.label
    takes_any = project.builder == TREE
    if not project.selection and label == snapshot.label and snapshot.natives >= takes_any:
        return snapshot
    return SelectedSnapshot(
        snapshot,
        project.selection,
        label=label,
        natives=takes_any or snapshot.natives,
        where=os.fspath(project.file),
    )


def _candidates(
    project: Project, report: Report, cache: Cache, revision: Revision, origin: str | None
) -> Sequence[Origin]:
    if origin is None and revision.version is None:
        return _git(project, report, cache)  # all other origins have only releases
    if origin is None:
        wheels = _wheels(project, report, cache)
        return [
            *wheels[:1],
            *_sdist(project, report, cache),
            *_archive(project, report, cache),
            *_directory(project, report, cache),
            *_git(project, report, cache),
            *_debian(project, report, cache),
            *wheels[1:],
        ]
    table = {
        wheel.KIND: _wheels,
        sdist.KIND: _sdist,
        published.KIND: _archive,
        published.DIRECTORY_KIND: _directory,
        git_origin.KIND: _git,
        debian.KIND: _debian,
    }
    if origin in table:
        return _configured(project, table[origin](project, report, cache), origin)
    if origin.startswith("git+") or "://" in origin:
        return [GitOrigin(origin, cache, report)]
    path = Path(os.path.abspath(origin))
    if is_repository(path):
        return [GitOrigin(os.fspath(path), cache, report)]
    if path.is_dir():
        return [TreeOrigin(path, report)]
    if path.exists():
        return [ArchiveOrigin(path, cache, report)]
    raise UserError(
        f"'{origin}' is no origin: not {', '.join(sorted(table))} or git+URL, and no such path. Name one"
    )


def _configured(project: Project, origins: list[Origin], kind: str) -> list[Origin]:
    if not origins:
        raise UserError(
            f"{project.file}: key 'origins' has no '{kind}'. Add its settings;"
            " tools/importer/origins/README.md has them"
        )
    return origins


def _wheels(project: Project, report: Report, cache: Cache) -> list[Origin]:
    settings = wheel_settings(project)
    if settings is None:
        return []
    native = WheelOrigin(settings, cache, report)
    if settings.contents is None:
        return [native]
    return [native, SourceWheelOrigin(settings, cache, report, native)]


def _sdist(project: Project, report: Report, cache: Cache) -> list[Origin]:
    if sdist.KIND not in project.origins:
        return []
    return [SdistOrigin(setting(project, sdist.KIND, "project"), cache, report)]


def _archive(project: Project, report: Report, cache: Cache) -> list[Origin]:
    settings = project.origins.get(published.KIND)
    if settings is None:
        return []
    if "path" in settings:
        return [PathOrigin(_below(project, settings["path"]), cache, report)]
    return [ArchiveUrlOrigin(setting(project, published.KIND, "url"), cache, report)]


def _directory(project: Project, report: Report, cache: Cache) -> list[Origin]:
    if published.DIRECTORY_KIND not in project.origins:
        return []
    path = setting(project, published.DIRECTORY_KIND, "path")
    return [PathOrigin(_below(project, path), cache, report)]


def _below(project: Project, path: str) -> str:
    """Return the absolute path for a path in import.json, which is relative to the workspace."""
    return os.path.join(project.workspace, path)


def _git(project: Project, report: Report, cache: Cache) -> list[Origin]:
    if git_origin.KIND not in project.origins:
        return []
    return [GitOrigin(setting(project, git_origin.KIND, "url"), cache, report)]


def _debian(project: Project, report: Report, cache: Cache) -> list[Origin]:
    if debian.KIND not in project.origins:
        return []
    return [DebianOrigin(setting(project, debian.KIND, "package"), cache, report)]


def _check_style(project: Project, tag: str | None) -> None:
    """Reject a tag without the usual `v`, because its patches would get a different directory."""
    usual = read_build_pin(project.pin).get("tag")
    if tag and tag[0].isdigit() and isinstance(usual, str) and usual.startswith("v"):
        raise UserError(
            f"no {tag} of {project.name}: its tags are as {usual}. Did you mean v{tag}?"
        )
    if tag and tag[0].isdigit() and project.version_of(tag) is None and project.builder == TREE:
        raise UserError(
            f"no {tag} of {project.name}: {project.file}: key 'tags' is '{project.tags}'. Did you"
            f" mean {project.tag_of(tag)}?"
        )


def _tell(
    report: Report, snapshot: OriginSnapshot, candidate: Origin, passed: Sequence[str]
) -> None:
    for reason in passed:
        report.say(f"not from {reason}")
    name = next(
        (
            str(snapshot.pin[key])
            for key in ("filename", "version", "url", "path")
            if key in snapshot.pin
        ),
        "",
    )
    natives = "" if snapshot.natives else "; sources only, so the build's pin stays where it is"
    commit = f", commit {snapshot.commit[:12]}" if snapshot.commit else ""
    report.say(f"{snapshot.label} from {candidate.title}: {name}{commit}{natives}")


def _failure(
    project: Project, revision: Revision, missing: Sequence[NotHereError], passed: Sequence[str]
) -> Exception:
    reasons = "; ".join(passed) or f"import.json of {project.name} names no origin"
    reached = len(passed) == len(missing) or any(error.complete for error in missing)
    if not missing or not reached:
        return EnvironmentProblem(
            f"{revision.name} of {project.name} is out of reach: {reasons}. Point --origin at a mirror,"
            " a directory or an archive"
        )
    known = [name for error in missing for name in error.known]
    misses = near(revision.name, known)
    hint = f"Did you mean {', '.join(misses)}?" if misses else "See the releases of the project"
    return UserError(f"no {revision.name} of {project.name}: {reasons}. {hint}")
