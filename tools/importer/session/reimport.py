# SPDX-License-Identifier: Apache-2.0
"""Import a release: rebase a patch series onto a different upstream tree."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.importer.apply import ApplyError
from tools.importer.engine import (
    Base,
    Carry,
    Decision,
    PatchResult,
    Settlements,
    base_files,
    carry,
    header_of,
    read_base,
    record_base,
)
from tools.importer.errors import UserError
from tools.importer.project import Project
from tools.importer.series import Series, SeriesError, load_series
from tools.importer.session.branches import SERIES_FILES
from tools.importer.session.rewritten import Rewrites
from tools.importer.snapshot import Snapshot


@dataclass(frozen=True)
class Source:
    """The patch series to rebase. `base` is None if it was never recorded."""

    label: str
    series: Series
    base: Base | None
    digest: str


@dataclass(frozen=True)
class Carried:
    """The result of a finished import: the files of the new series directory, keyed by name.

    `landed` holds the files of its subdirectory `landed/`, a series of the patches that upstream
    has merged.
    """

    label: str
    files: Mapping[str, bytes]
    landed: Mapping[str, bytes] = field(default_factory=dict)


def current_label(project: Project) -> str:
    """Return the release in the build's pin. Raises UserError if the pin is missing or invalid."""
    try:
        label = json.loads(project.pin.read_text(encoding="utf-8"))["tag"]
    except FileNotFoundError:
        raise UserError(f"{project.pin}: no such file. Name the series with --from") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{project.pin}: {error!r}. Restore it, or use --from") from None
    if not isinstance(label, str):
        raise UserError(f"{project.pin}: tag is {label!r}, not a text. Restore it, or use --from")
    return label


def load_source(project: Project, label: str) -> Source:
    """Read a release's patch series and its base. Raises UserError if there is no series."""
    directory = project.series_of(label)
    if not directory.is_dir():
        known = sorted(path.parent.name for path in project.series.glob("*/series"))
        raise UserError(
            f"{directory}: no such series. There are: {', '.join(known) or 'none'}. Use --from"
        )
    has_base = (directory / "base.json").exists()
    base = read_base(directory) if has_base else None
    return Source(label, load_series(directory), base, digest_of_directory(directory))


def _check_names(source: Source) -> None:
    """Raise UserError if a patch touches a path with a backslash, which a build cannot unpack."""
    for patch in source.series.patches:
        for path in (path for diff in patch.files for path in diff.paths):
            if "\\" in path:
                raise UserError(
                    f"{source.series.root / patch.name}: '{path}' has a backslash, which not every "
                    "machine allows in names. Leave that file out of the patch"
                )


def digest_of_directory(directory: Path) -> str:
    """Return a hash of the series file, the patches' diffs and the base.

    Patch headers are excluded, because the user may correct them while an import is stopped at a
    conflict.
    """
    total = hashlib.sha256()
    for path in sorted({path for pattern in SERIES_FILES for path in directory.glob(pattern)}):
        data = path.read_bytes()
        if path.suffix == ".patch":
            data = data[len(header_of(data)) :].lstrip(b"\n")
        name = path.relative_to(directory).as_posix()
        total.update(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode())
    return total.hexdigest()


def replay(
    source: Source,
    new: Snapshot,
    decisions: Mapping[str, Decision],
    *,
    rewrites: Rewrites | None = None,
    old: Snapshot | None = None,
    settlements: Settlements | None = None,
) -> Carry:
    """Merge the series up to the first patch that needs a resolution not in `decisions`.

    A call that no rewrite rule covers stops the merge like a conflict, usually before the first
    patch. Pass the same `rewrites` object to `finish`, so that files are parsed only once. `old` is
    the base's tree; it only supplies text to show in conflicts. `settlements` resolve conflicts
    that the user has resolved before. Raises UserError if the base is unknown or a path has a
    backslash.
    """
    _check_names(source)
    if source.base is None:
        if new.label != source.label:
            raise UserError(
                f"{source.series.root}/base.json: no such file, so it is unknown which tree the patches "
                f"were made against. Run `import.py --tag {source.label}` once to record it"
            )
        return Carry(source.series, (), {})  # nothing to merge: `new` becomes the base
    rules = rewrites or Rewrites(new)
    made_anew, findings = rules.decide(source.series)
    merge = functools.partial(
        carry,
        source.series,
        source.base,
        new,
        decisions={**made_anew, **decisions},
        old=old,
        settlements=settlements,
    )
    if findings:
        full = merge(keep_going=True)
        waiting = [
            file.new_path for each in full.results if each.outcome.stops for file in each.files
        ]
        known = {(each.rule, each.path, each.function or None) for each in findings}
        findings += tuple(
            each
            for each in rules.look(source.series, full.files, unsettled=waiting)
            if (each.rule, each.path, each.function) not in known
        )
        return Carry(source.series, (rules.stop(findings),), {})
    result = merge()
    if result.stopped is None:
        findings_left = rules.look(source.series, result.files)
        if findings_left:
            return Carry(source.series, (*result.results, rules.stop(findings_left)), result.files)
    return result


def forecast(
    source: Source,
    new: Snapshot,
    decisions: Mapping[str, Decision],
    result: Carry,
    *,
    rewrites: Rewrites,
    old: Snapshot | None = None,
    settlements: Settlements | None = None,
) -> tuple[PatchResult, ...]:
    """Return the patches after the current conflict that will also need manual resolution.

    The conflicting patch is omitted from the merge, so this is an estimate.
    """
    if source.base is None:
        return ()
    every = {**rewrites.decide(source.series)[0], **decisions}
    full = carry(
        source.series,
        source.base,
        new,
        decisions=every,
        keep_going=True,
        old=old,
        settlements=settlements,
    )
    stopped = {each.patch.name for each in result.results}
    return tuple(
        each for each in full.results if each.outcome.stops and each.patch.name not in stopped
    )


def finish(
    result: Carry,
    new: Snapshot,
    *,
    rewrites: Rewrites | None = None,
    complete: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = dict,
) -> Carried:
    """Return the files of the new series directory.

    The callback `complete` may add patches that are not in `result`. Raises UserError if a patch
    does not apply cleanly to `new`, or if the patched tree has a call that no rewrite rule covers.
    """
    (rewrites or Rewrites(new)).check(result.series, result.files)
    files = complete(result.series_files())
    with tempfile.TemporaryDirectory(prefix="series-") as scratch:
        write_directory(Path(scratch), files)
        try:
            base = record_base(load_series(Path(scratch)), new)
        except (SeriesError, ApplyError) as error:
            where = str(error).replace(f"{scratch}/", f"{new.label}/")
            raise UserError(f"the new series is invalid: {where}") from error
    return Carried(new.label, {**files, **base_files(base)})


def write_directory(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write a patch series directory to a temporary location."""
    for name, data in files.items():
        (directory / name).write_bytes(data)


def directory_changes(
    project: Project, carried: Carried, source: Source, *, overwrite: bool
) -> dict[str, bytes | None]:
    """Return the files to write for the new patch series, keyed by path; None deletes one.

    Raises UserError if the release already has a different series, unless `overwrite` is set.
    """
    directory = project.series_of(carried.label)
    files: dict[str, bytes | None] = {}
    for pattern in SERIES_FILES:
        paths = (path.relative_to(directory) for path in directory.glob(pattern))
        files |= {path.as_posix(): None for path in paths}
    files |= {**carried.files, **carried.landed}
    differing = [
        name
        for name, data in sorted(files.items())
        if (directory / name).exists() and (data is None or (directory / name).read_bytes() != data)
    ]
    if differing and carried.label != source.label and not overwrite:
        raise UserError(
            f"{directory}: already exists with other contents ({', '.join(differing[:3])}). "
            f"Carry that series with --from {carried.label}, or write over it with --overwrite"
        )
    below = directory.relative_to(project.workspace).as_posix()
    return {f"{below}/{name}": data for name, data in files.items()}
