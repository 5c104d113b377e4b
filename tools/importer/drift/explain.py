# SPDX-License-Identifier: Apache-2.0
"""Explain a patch's outcomes: the files, the reasons, and the differences from upstream."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from tools.importer.drift.table import Row, Table
from tools.importer.drift.text import shown
from tools.importer.engine import Outcome, side_by_side
from tools.importer.errors import UserError

_MEANINGS = {
    Outcome.CLEAN: "it applies unchanged",
    Outcome.OFFSET: "its lines have moved; it is otherwise the same",
    Outcome.THREE_WAY: "lines near it changed; both changes were merged",
    Outcome.LANDED: "upstream contains it, because merging it changes nothing; it is dropped",
    Outcome.NOT_APPLICABLE: "this origin never has its files; it is kept unchanged",
    Outcome.CONFLICT: "upstream changed the same lines; you decide",
    Outcome.SUSPECTED: "upstream seems to have it with changes; you decide",
    Outcome.AMBIGUOUS: "it fits at several places; you decide",
    Outcome.FILE_GONE: "upstream removed its file; you decide",
    Outcome.RESOLVED: "its rule generates it again, or its conflict is settled as before",
    Outcome.SKIPPED: "it is left out",
}


def to_explanation(table: Table, name: str) -> str:
    """Explain the outcomes of the patch `name`. Raises UserError if it does not exist."""
    full = name if name.endswith(".patch") else f"{name}.patch"
    rows = {row.name: row for row in table.rows}
    if full not in rows:
        near = difflib.get_close_matches(full, rows, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UserError(f"--explain {name}: {table.series} has no such patch.{hint}")
    return "\n".join(_lines(table, rows[full])) + "\n"


def _lines(table: Table, row: Row) -> Iterator[str]:
    yield shown(f"{row.name} of {table.series}: {row.subject}")
    yield shown(f"Owner: {row.owner}. Reason: {row.reason}. Upstream: {row.upstream}")
    for release, cell in zip(table.releases, row.cells, strict=True):
        yield ""
        meaning = _MEANINGS.get(cell.outcome, "")
        yield shown(f"{release.label}: {cell.outcome.value}: {meaning}".rstrip(": "))
        if cell.note:
            yield shown(f"  {cell.note}")
        for file in cell.files:
            moved = f" -> {file.new_path}" if file.new_path != file.path else ""
            note = f" ({file.note})" if file.note else ""
            yield shown(f"  {file.path}{moved}: {file.outcome.value}{note}")
            for line in side_by_side(file.pairs) or file.inner.splitlines():
                yield shown(f"      {line}")
