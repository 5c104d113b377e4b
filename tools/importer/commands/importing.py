# SPDX-License-Identifier: Apache-2.0
"""Replay an import, then write files or stop at a conflict, for `import`, `continue` and `skip`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tools.importer.commands.context import Context
from tools.importer.commands.summary import (
    carry_data,
    carry_lines,
    change_lines,
    changes_data,
    learned_lines,
    unread_lines,
    waiting_lines,
    watch_lines,
)
from tools.importer.engine import Carry, Decision, PatchResult
from tools.importer.errors import ExitCode, UserError
from tools.importer.project import SBOM, TREE, Project
from tools.importer.session import (
    KNOWN_CALLS,
    SESSION_FILES,
    Carried,
    Changes,
    Rewrites,
    Source,
    Transaction,
    Unfinished,
    branch_files,
    check_watched,
    current_label,
    directory_changes,
    finish,
    forecast,
    landed_files,
    load_source,
    moved_pin,
    pin_bytes,
    read_known_calls,
    replay,
    settled_calls,
    settlement_files,
    settlements_of,
    stop_at,
    superseded_files,
    with_returned,
)
from tools.importer.snapshot import Snapshot

COMMAND = "import"


@dataclass(frozen=True)
class Import:
    """The inputs from which an import can be replayed."""

    source: str
    digest: str
    label: str
    pin: Mapping[str, object]
    overwrite: bool
    acknowledge_licence: bool
    known_calls: str = ""  # the sha256 of rewrites.txt; "" in states saved by older versions
    ask_again: bool = False  # whether to ignore stored conflict resolutions


def resume(context: Context, unfinished: Unfinished) -> tuple[Import, Source, Snapshot]:
    """Return the inputs of an unfinished import. Raises UserError if its patches have changed."""
    project = context.project
    work = Import(**unfinished.inputs)  # type: ignore[arg-type]
    source = load_source(project, work.source)
    if source.digest != work.digest:
        raise UserError(
            f"{source.series.root}: changed since the import began. Restore it and run this again, or "
            "`import.py abort` and import again; your files are in .import/conflict until then"
        )
    from tools.importer.origins import open_pin

    return work, source, open_pin(project, context.report, work.pin)


def go_on(
    context: Context,
    work: Import,
    source: Source,
    new: Snapshot,
    decisions: Mapping[str, Decision],
    extra: Mapping[str, object] | None = None,
) -> ExitCode:
    """Replay the import, then write its files or stop at a patch that needs manual resolution.

    Returns the exit code. `extra` is added to the JSON result.
    """
    project, report = context.project, context.report
    heading = f"{project.name}: {work.source} -> {new.label}"
    report.say(heading + (" (dry run)" if context.dry_run else ""))
    old = _old_tree(context, source)
    licence = _check_licence(context, work, old, new)
    known, on_patches = settled_calls(decisions, _known_calls(context, work))
    watched = check_watched(source.series, source.base, new)
    tree = watched.tree(new)
    rewrites = Rewrites(tree, known)
    settlements = {} if work.ask_again else settlements_of(project)
    with report.progress(f"Carrying {len(source.series.patches)} patches"):
        result = replay(
            source, tree, on_patches, rewrites=rewrites, old=old, settlements=settlements
        )
    for line in carry_lines(result):
        report.say(line)
    if result.stopped:
        waiting = forecast(
            source,
            tree,
            on_patches,
            result,
            rewrites=rewrites,
            old=old,
            settlements=settlements,
        )
        for line in waiting_lines(waiting):
            report.say(line)
        return _stop(context, work, source, result, decisions, waiting, extra or {})
    with report.progress("Proving that the new series applies"):
        carried = finish(
            result,
            new,
            rewrites=rewrites,
            complete=lambda files: with_returned(files, watched.returned),
        )
        landed, unwatched = landed_files(source, new, watched, result)
        carried = replace(carried, landed=landed)
    for line in watch_lines(watched, unwatched):
        report.say(line)
    watch = {"returned": list(watched.returned), "unwatched": [*watched.lost, *unwatched]}
    for line in unread_lines(rewrites.unread):
        report.say(line)
    learned = settlement_files(project, result.results, on_patches, old=work.source, new=new.label)
    for line in learned_lines(result, on_patches):
        report.say(line)
    files = {**licence, **learned}
    return _publish(
        context, work, source, new, result, carried, files, rewrites, {**watch, **(extra or {})}
    )


def _stop(
    context: Context,
    work: Import,
    source: Source,
    result: Carry,
    decisions: Mapping[str, Decision],
    waiting: Sequence[PatchResult],
    extra: Mapping[str, object],
) -> ExitCode:
    project, report = context.project, context.report
    stopped = result.stopped
    assert stopped is not None
    directory = project.series_of(work.label)
    if directory.is_dir() and work.label != work.source and not work.overwrite:
        # Fail now rather than after the user has resolved all conflicts.
        raise UserError(
            f"{directory}: already exists, and {stopped.patch.name} would stop here for a decision. "
            f"Carry that series with --from {work.label}, or write over it with --overwrite"
        )
    if context.dry_run:
        report.say(f"would stop at {stopped.patch.name}")
    else:
        unfinished = Unfinished(COMMAND, project.name, asdict(work), decisions)
        by_rewrites = stopped.patch.name == KNOWN_CALLS
        stop_at(
            project.state,
            unfinished,
            stopped,
            project.series if by_rewrites else source.series.root,
        )
        report.say(
            f"stopped at {stopped.patch.name}: read .import/CONFLICT.md, edit the files below"
        )
        report.say(
            ".import/conflict, then `import.py continue`; or `import.py skip`, `import.py abort`"
        )
    data = _data(context, work, result, "stopped", Changes(), None)
    report.result({**data, "waiting": [each.patch.name for each in waiting], **extra})
    return ExitCode.CONFLICT


def _publish(
    context: Context,
    work: Import,
    source: Source,
    new: Snapshot,
    result: Carry,
    carried: Carried,
    others: Mapping[str, bytes],
    rewrites: Rewrites,
    extra: Mapping[str, object],
) -> ExitCode:
    """Write the patch series and the files in `others` atomically.

    `others` contains the licence record and the reusable conflict resolutions.
    """
    project, report = context.project, context.report
    files: dict[str, bytes | None] = dict(others)
    files |= directory_changes(project, carried, source, overwrite=work.overwrite)
    files |= branch_files(project, new.label, new.pin)
    if rewrites.known != read_known_calls(project):
        known = project.series.relative_to(project.workspace) / KNOWN_CALLS
        files[known.as_posix()] = rewrites.known
    pin = moved_pin(project, new, carried, report)
    pin_path = project.pin.relative_to(project.workspace).as_posix()
    built = None if pin is not None else _built(project)
    files = {**superseded_files(project, new.label, new.pin, built=built), **files}
    if pin is not None:
        from tools.importer.metadata import render_all, render_project

        # Without a bill of materials, the workspace may lack the inputs to generate one.
        render = render_all if (project.workspace / SBOM).exists() else render_project
        files |= render(project, pin)
        files[pin_path] = pin_bytes(pin)
    transaction = Transaction(project.workspace, project.state, what=f"the import of {new.label}")
    for path, data in files.items():
        if data is None:
            transaction.delete(path)
        else:
            transaction.write(path, data)
    if context.dry_run:
        changes = transaction.changes()
    else:
        changes = transaction.publish(last=[pin_path], clears=SESSION_FILES)
    code = ExitCode.DONE if changes else ExitCode.NOTHING_TO_DO
    if not changes:
        report.say(f"nothing to do: {project.name} is at {new.label}, from the same origin")
    for line in change_lines(changes):
        report.say(line)
    moved = "would move" if context.dry_run else "moved"
    if changes and pin is None:
        report.say(f"the build stays where it is: it cannot use {new.label} from this origin")
    elif pin_path in changes.changed and project.builder == TREE:
        report.say(f"the build's pin {moved}: run the tests of what depends on {project.name}")
    elif pin_path in changes.changed:
        report.say(
            f"the build's pin {moved}: run third_party/pypi/update.py, then `import.py metadata`, then "
            "the tests"
        )
    outcome = "published" if changes else "nothing to do"
    summary = _data(context, work, result, outcome, changes, pin)
    report.result({**summary, "unread_by_rewrites": list(rewrites.unread), **extra})
    return code


def _built(project: Project) -> str | None:
    """Return the label of the build's patch series; None if the project has no pin yet."""
    return current_label(project) if project.pin.exists() else None


def _known_calls(context: Context, work: Import) -> bytes:
    """Return the text of rewrites.txt. Raises UserError if it changed since the import began."""
    known = read_known_calls(context.project)
    if work.known_calls and hashlib.sha256(known).hexdigest() != work.known_calls:
        raise UserError(
            f"{context.project.series / KNOWN_CALLS}: changed since the import began. Restore it, make "
            f"that edit in .import/conflict/{KNOWN_CALLS} or after the import, and run this again"
        )
    return known


def _old_tree(context: Context, source: Source) -> Snapshot | None:
    """Return the old base's tree if it is in the local cache, else None."""
    from tools.importer.origins import at_hand

    return at_hand(context.project, context.report, source.base.pin) if source.base else None


def _check_licence(
    context: Context, work: Import, old: Snapshot | None, new: Snapshot
) -> dict[str, bytes]:
    """Return the licence record to write. Raises UserError for an unacknowledged change."""
    from tools.importer.metadata import check_licence, licence_file, load_record

    record = check_licence(
        old,
        new,
        recorded=load_record(context.project),
        acknowledged=work.acknowledge_licence,
        paths=context.project.licence.files,
    )
    for line in record.changes:
        context.report.say(line)
    path = licence_file(context.project).relative_to(context.project.workspace).as_posix()
    return {path: record.dumps()} if record.digests else {}


def _data(
    context: Context,
    work: Import,
    result: Carry,
    outcome: str,
    changes: Changes,
    pin: Mapping[str, object] | None,
) -> dict[str, object]:
    return {
        "command": COMMAND,
        "project": context.project.name,
        "from": work.source,
        "to": work.label,
        "origin": dict(work.pin),
        "dry_run": context.dry_run,
        "outcome": outcome,
        **carry_data(result),
        "files": changes_data(changes),
        "build_pin": dict(pin) if pin is not None else None,
    }
