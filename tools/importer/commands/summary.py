# SPDX-License-Identifier: Apache-2.0
"""Report the outcome of each patch, as lines for users and as JSON data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from tools.importer.engine import Carry, Outcome, PatchResult
from tools.importer.session import Changes, Watched
from tools.importer.session.rewritten import HEADER

_KEPT = (Outcome.CLEAN, Outcome.OFFSET, Outcome.THREE_WAY, Outcome.RESOLVED)


def carry_lines(result: Carry) -> Iterator[str]:
    """Yield one line per patch with its outcome, then lines that list dropped and kept patches."""
    width = max((len(each.outcome.value) for each in result.results), default=0)
    for each in result.results:
        note = f"  ({_note(each)})" if _note(each) else ""
        yield f"{each.outcome.value:{width}}  {each.patch.name}{note}"
        for file in each.files if each.outcome.stops else ():
            if file.outcome.stops:
                yield f"{'':{width}}    {file.new_path}: {file.note or file.outcome.value}"
    # Skip the result for rewrites.txt, which can need manual resolution but is not a patch.
    patches = [each for each in result.results if each.patch.name.endswith(".patch")]
    counts = Counter(each.outcome for each in patches)
    outcomes = ", ".join(
        f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]
    )
    if outcomes:
        yield f"{len(patches)} of {len(result.series.patches)} patches: {outcomes}"
    landed = _names(result, Outcome.LANDED)
    skipped = _names(result, Outcome.SKIPPED)
    waiting = _names(result, Outcome.NOT_APPLICABLE)
    if landed:
        yield f"landed upstream, dropped from the series: {', '.join(landed)}"
    if skipped:
        yield f"NOT carried, dropped by your decision: {', '.join(skipped)}"
    yield from reused_lines(result)
    if waiting:
        yield f"kept as they were, this origin has none of their files: {', '.join(waiting)}"


def reused_lines(result: Carry) -> Iterator[str]:
    """Yield one line for each conflict in which an earlier resolution was reused."""
    for each in result.results:
        if each.settlement is not None and _reused(each):
            yield (
                f"reused: {each.patch.name} is settled as {each.settlement.source}; to be asked "
                f"again, run `import.py settled --forget {each.settlement.key[:12]}`"
            )


def learned_lines(result: Carry, decided: Collection[str]) -> Iterator[str]:
    """Yield one line per resolved patch, saying whether later imports can reuse the resolution."""
    for each in result.results:
        if each.patch.name in decided and each.outcome in (Outcome.RESOLVED, Outcome.LANDED):
            if each.settlement is not None:
                key = each.settlement.key[:12]
                yield f"remembered: {each.patch.name}, for the same conflict ({key})"
            else:
                yield (
                    f"not remembered: {each.patch.name}, because its resolution is not only between "
                    "conflict markers"
                )


def waiting_lines(waiting: Sequence[PatchResult]) -> Iterator[str]:
    """Yield one line for each later patch that will also need manual resolution."""
    for each in waiting:
        files = ", ".join(file.new_path for file in each.files if file.outcome.stops)
        yield f"later: {each.outcome.value}  {each.patch.name}  ({files})"


def watch_lines(watched: Watched, unwatched: Sequence[str]) -> Iterator[str]:
    """Yield lines about landed patches that upstream reverted, or whose revert would be missed."""
    for name in watched.returned:
        yield f"back: {name} is in the series again, because upstream has reverted it"
    for name in watched.lost:
        yield f"no longer watched: {name}, because upstream has changed its lines since it landed"
    for name in unwatched:
        yield (
            f"not watched: {name} would not come back if upstream reverted it, because its change "
            "cannot be distinguished from upstream's"
        )


def unread_lines(unread: Sequence[str]) -> Iterator[str]:
    """Yield one line that lists files no rule could check, if there are any."""
    if unread:
        few = ", ".join(unread[:3]) + (", ..." if len(unread) > 3 else "")
        yield (
            f"no rule has checked {few} ({len(unread)} in all): not UTF-8, or not valid in this "
            "Python. Look for `__file__` there yourself"
        )


def change_lines(changes: Changes) -> Iterator[str]:
    """Yield one line per changed file in the workspace."""
    for word, paths in (
        ("new", changes.added),
        ("changed", changes.changed),
        ("deleted", changes.deleted),
    ):
        for path in paths:
            yield f"  {word:8} {path}"


def carry_data(result: Carry) -> dict[str, object]:
    """Return the same information as `carry_lines`, as JSON data."""
    stopped = result.stopped
    return {
        "patches": [_patch_data(each) for each in result.results],
        "landed": _names(result, Outcome.LANDED),
        "not_carried": _names(result, Outcome.SKIPPED),
        "not_applicable": _names(result, Outcome.NOT_APPLICABLE),
        "stopped": stopped.patch.name if stopped else None,
        "reused": [_settled_data(each) for each in result.results if _reused(each)],
    }


def changes_data(changes: Changes) -> dict[str, object]:
    """Return the same information as `change_lines`, as JSON data."""
    return {
        "added": list(changes.added),
        "changed": list(changes.changed),
        "deleted": list(changes.deleted),
    }


def _settled_data(result: PatchResult) -> Mapping[str, object]:
    assert result.settlement is not None
    return {
        "patch": result.patch.name,
        "id": result.settlement.key[:12],
        "source": result.settlement.source,
    }


def _names(result: Carry, outcome: Outcome) -> list[str]:
    return [each.patch.name for each in result.results if each.outcome is outcome]


def _note(result: PatchResult) -> str:
    if HEADER in result.patch.header and result.outcome in _KEPT:
        return f"generated again by rule {result.patch.header[HEADER]}"
    if result.outcome is Outcome.RESOLVED and not _reused(result):
        return "as you settled it"
    return result.note


def _reused(result: PatchResult) -> bool:
    return result.settlement is not None and bool(result.settlement.source)


def _patch_data(result: PatchResult) -> Mapping[str, object]:
    return {
        "name": result.patch.name,
        "subject": result.patch.header["Subject"],
        "outcome": result.outcome.value,
        "note": _note(result),
        "files": [
            {
                "path": file.path,
                "new_path": file.new_path,
                "outcome": file.outcome.value,
                "note": file.note,
            }
            for file in result.files
        ],
    }
