# SPDX-License-Identifier: Apache-2.0
"""rewrites: check or update the patches that rules generate from upstream's tree."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.importer.commands.context import Context
from tools.importer.commands.summary import unread_lines
from tools.importer.editing import Release, open_release
from tools.importer.engine import apply_to_snapshot, base_files, record_base
from tools.importer.errors import ExitCode, UserError
from tools.importer.series import Series, load_series
from tools.importer.session import (
    KNOWN_CALLS,
    Transaction,
    read_known_calls,
    refuse_unfinished,
)
from tools.importer.snapshot import OverlaySnapshot

if TYPE_CHECKING:
    from tools.importer.rewrites import Modules, Rule

NAME = "rewrites"
HELP = "check the patches that rules generate, and that rules cover all guarded places"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if any is stale"
    )
    mode.add_argument("--update", action="store_true", help="write the stale patches")
    parser.add_argument("--series", metavar="LABEL", help="the series (default: the build's)")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    # Imported lazily, because it imports libcst, which takes half a second.
    from tools.importer import rewrites

    report = context.report
    if args.update:
        refuse_unfinished(context.project.state)
    release = open_release(context.project, report, args.series)
    modules = rewrites.Modules()
    rules = rewrites.with_known_calls(
        rewrites.RULES, read_known_calls(context.project), KNOWN_CALLS
    )
    with report.progress(f"running the rules on {release.label}"):
        patches = rewrites.patch_files(
            release.series,
            release.snapshot,
            release.label,
            rules=rules,
            modules=modules,
        )
        stale = [name for name, data in patches.items() if not _is_current(release, name, data)]
        if args.update:
            files, unread = _updated(
                {name: patches[name] for name in stale}, release, rules, modules
            )
        else:
            _refuse(stale, release)
            unread = _check_guards(release.series, release, rules, modules)
    for name in patches:
        report.say(f"{'stale' if name in stale else 'as its rule makes it'}: {name}")
    for line in unread_lines(unread):
        report.say(line)
    report.result(
        {
            "series": release.label,
            "patches": sorted(patches),
            "stale": stale,
            "unread_by_rewrites": list(unread),
        }
    )
    if not args.update:
        return ExitCode.DONE
    return _publish(files, release, context)


def _is_current(release: Release, name: str, data: bytes) -> bool:
    from tools.importer.rewrites import same_patch

    file = release.directory / name
    return file.exists() and same_patch(file.read_bytes(), data)


def _refuse(stale: list[str], release: Release) -> None:
    if stale:
        raise UserError(
            f"{release.directory}: {', '.join(stale)} is not what its rule generates for {release.label}. "
            "Run `import.py rewrites --update`"
        )


def _check_guards(
    series: Series, release: Release, rules: Sequence[Rule], modules: Modules
) -> tuple[str, ...]:
    """Return the files that cannot be parsed. Raises UserError for a call that no rule covers."""
    from tools.importer.rewrites import check_guards

    snapshot = release.snapshot
    touched = {diff.path for patch in series.patches for diff in patch.files}
    absent = [path for path in touched if not snapshot.carries(path)]
    files = apply_to_snapshot(series, snapshot, absent=absent)
    patched = OverlaySnapshot(snapshot, files)
    return check_guards(patched, release.label, rules=rules, modules=modules)


def _updated(
    stale: Mapping[str, bytes], release: Release, rules: Sequence[Rule], modules: Modules
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the contents of the new series directory, and the files that the rules cannot parse.

    Raises UserError if a patch does not apply, or if no rule covers a call.
    """
    files = {name: (release.directory / name).read_bytes() for name in _names(release.series)}
    listed = (release.directory / "series").read_text(encoding="utf-8")
    # A new rule's patch is generated from unpatched files, so it precedes all hand-written patches.
    files["series"] = "".join(f"{name}\n" for name in stale if name not in files).encode()
    files["series"] += listed.encode()
    files |= stale
    with tempfile.TemporaryDirectory(prefix="series-") as scratch:
        for name, data in files.items():
            Path(scratch, name).write_bytes(data)
        series = load_series(Path(scratch))
        files |= base_files(record_base(series, release.snapshot))
        return files, _check_guards(series, release, rules, modules)


def _publish(files: Mapping[str, bytes], release: Release, context: Context) -> ExitCode:
    """Atomically write the patches and their recorded base to the workspace."""
    project = context.project
    transaction = Transaction(
        project.workspace, project.state, what=f"the rewrites of {release.label}"
    )
    directory = release.directory.relative_to(project.workspace)
    for name, data in files.items():
        transaction.write((directory / name).as_posix(), data)
    changes = transaction.changes() if context.dry_run else transaction.publish()
    for path in (*changes.added, *changes.changed):
        context.report.say(f"{'would write' if context.dry_run else 'wrote'} {path}")
    return ExitCode.DONE if changes else ExitCode.NOTHING_TO_DO


def _names(series: Series) -> list[str]:
    return [patch.name for patch in series.patches]
