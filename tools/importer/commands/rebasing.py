# SPDX-License-Identifier: Apache-2.0
"""Change one patch and rebase the later ones, for `edit`, `new`, `refresh` and `drop`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tools.importer.commands.context import Context
from tools.importer.commands.summary import (
    carry_data,
    change_lines,
    changes_data,
    learned_lines,
    reused_lines,
)
from tools.importer.editing import (
    Desk,
    Kind,
    Publication,
    Release,
    SeriesEdit,
    open_release,
    pinned_wheel,
    publication,
    rebase,
    tree_of,
)
from tools.importer.engine import Carry, Decision, Outcome
from tools.importer.errors import ExitCode
from tools.importer.session import (
    EDITING,
    SESSION_FILES,
    Changes,
    Transaction,
    Unfinished,
    digest_of_header,
    settlement_files,
    settlements_of,
    stop_at,
    write_unfinished,
)
from tools.importer.snapshot import Snapshot

COMMAND = "refresh"

# The key under which `edit` and `new` record the digest of the header that they wrote.
HEADER_DIGEST = "header_digest"


def resume(context: Context, unfinished: Unfinished) -> tuple[Release, SeriesEdit, Snapshot]:
    """Return the inputs of an unfinished rebase, and the tree onto which patches are rebased."""
    edit = SeriesEdit.from_json(unfinished.inputs)
    release = open_release(context.project, context.report, edit.label)
    return release, edit, tree_of(release, edit)


def inputs_of(edit: SeriesEdit) -> dict[str, object]:
    """Return the inputs to store, including `source`, which the `status` command displays."""
    return {**edit.as_json(), "source": edit.name}


def go_on(
    context: Context, release: Release, edit: SeriesEdit, decisions: Mapping[str, Decision]
) -> ExitCode:
    """Rebase the patches that follow `edit`, then write all patches or report a conflict."""
    project, report = context.project, context.report
    with report.progress("Rebasing the later patches"):
        rebased = rebase(release, edit, decisions, settlements_of(project))
    for line in _lines(rebased.carried):
        report.say(line)
    stopped = rebased.carried.stopped
    if rebased.files is None:
        assert stopped is not None
        if context.dry_run:
            report.say(f"would stop at {stopped.patch.name}")
        else:
            unfinished = Unfinished(COMMAND, project.name, inputs_of(edit), decisions)
            stop_at(project.state, unfinished, stopped, release.directory)
            report.say(f"stopped at {stopped.patch.name}: read .import/CONFLICT.md, edit the files")
            report.say("below .import/conflict, then `import.py continue`; or skip, or abort")
        report.result(_data(context, edit, rebased.carried, "stopped", Changes(), None))
        return ExitCode.CONFLICT
    with report.progress("Proving the series and hashing the tree"):
        result = publication(project, release, rebased.files, lambda: pinned_wheel(project, report))
    learned = settlement_files(
        project,
        rebased.carried.results,
        decisions,
        old=release.label,
        new=tree_of(release, edit).label,
    )
    for line in learned_lines(rebased.carried, decisions):
        report.say(line)
    result = replace(result, files={**result.files, **learned})
    return publish(context, edit, rebased.carried, result)


def publish(
    context: Context, edit: SeriesEdit, carried: Carry | None, result: Publication
) -> ExitCode:
    """Write the files of `result` atomically, report the changes, and delete the edit directory."""
    project, report = context.project, context.report
    what = f"{edit.kind.value} {edit.name} in {edit.label}"
    transaction = Transaction(project.workspace, project.state, what=what)
    result.into(transaction)
    if context.dry_run:
        changes = transaction.changes()
    else:
        changes = transaction.publish(last=result.last, clears=SESSION_FILES)
    for line in change_lines(changes):
        report.say(line)
    if not changes:
        report.say(f"nothing to do: {edit.name} in {edit.label} would stay as it is")
    elif result.pinned:
        report.say(f"the build's tree is now {result.pinned}")
    outcome = "published" if changes else "nothing to do"
    report.result(_data(context, edit, carried, outcome, changes, result.pinned))
    return ExitCode.DONE if changes else ExitCode.NOTHING_TO_DO


def begin(
    context: Context, release: Release, edit: SeriesEdit, count: int, header: bytes, only: list[str]
) -> ExitCode:
    """Write the edit directory for `edit` and print the next steps."""
    project, report = context.project, context.report
    desk = Desk(project.state)
    shown = desk.root.relative_to(project.workspace)
    files = 0
    if not context.dry_run:
        files = desk.lay_out(release, count, header, report, only=only)
        digest = digest_of_header(desk.header())
        inputs = {**inputs_of(edit), HEADER_DIGEST: digest}
        unfinished = Unfinished(EDITING, project.name, inputs)
        write_unfinished(project.state, unfinished)
    verb = "would lay out" if context.dry_run else "laid out"
    report.say(f"{edit.name}: {verb} {release.label} with {count} patches in {shown}/tree")
    report.say(f"edit the files there, and the patch's header in {shown}/header; then")
    report.say("`import.py refresh` writes the patch and rebases the later ones (or `abort`)")
    report.result(
        {
            "outcome": "would edit" if context.dry_run else "editing",
            "patch": edit.name,
            "release": release.label,
            "tree": str(desk.tree.files),
            "header": str(desk.header_file),
            "files": files,
        }
    )
    return ExitCode.DONE


def _lines(carried: Carry) -> Iterator[str]:
    """Yield a line for each rebased patch that changed, then a count of the unchanged ones."""
    for each in carried.results:
        if each.outcome is Outcome.LANDED:
            yield f"contained in it now, leaves the series: {each.patch.name}"
        elif each.outcome is Outcome.SKIPPED:
            yield f"NOT rebased, dropped by your decision: {each.patch.name}"
        elif each.outcome not in (Outcome.CLEAN, Outcome.NOT_APPLICABLE):
            note = f" ({each.note})" if each.note else ""
            yield f"{each.outcome.value}  {each.patch.name}{note}"
    yield from reused_lines(carried)
    unchanged = sum(
        each.outcome in (Outcome.CLEAN, Outcome.NOT_APPLICABLE) for each in carried.results
    )
    if carried.results:
        yield f"{unchanged} of {len(carried.results)} later patches stay as they are"


def _data(
    context: Context,
    edit: SeriesEdit,
    carried: Carry | None,
    outcome: str,
    changes: Changes,
    pinned: str | None,
) -> dict[str, object]:
    return {
        "command": edit.kind.value if edit.kind is Kind.DROP else COMMAND,
        "project": context.project.name,
        "release": edit.label,
        "patch": edit.name,
        "dry_run": context.dry_run,
        "outcome": outcome,
        **(carry_data(carried) if carried else {}),
        "files": changes_data(changes),
        "tree_hash": pinned,
    }
