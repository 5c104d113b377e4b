# SPDX-License-Identifier: Apache-2.0
"""List the patches that need manual resolution on a release, with the next step for each."""

from __future__ import annotations

from dataclasses import dataclass

from tools.importer.drift.table import Cell, Release, Table
from tools.importer.engine import Outcome

_NEXT = {
    Outcome.CONFLICT: (
        "`import.py {options}` stops there with the lines of base, upstream and patch: resolve them"
    ),
    Outcome.SUSPECTED: (
        "Compare upstream's lines with the patch's; if upstream's suffice, run "
        "`import.py {options}` and `skip`"
    ),
    Outcome.AMBIGUOUS: (
        "`import.py {options}` stops there: choose the place, and give the hunk a line of context "
        "that occurs only once"
    ),
    Outcome.FILE_GONE: (
        "Find the file that replaces it upstream; `import.py {options}` stops there: "
        "make the change in the new file, or `skip`"
    ),
}


@dataclass(frozen=True)
class Attention:
    """A patch that will need manual resolution if `release` is imported."""

    release: str
    patch: str
    outcome: Outcome
    where: str
    details: str
    next_step: str

    @property
    def line(self) -> str:
        """Return the problem, its location, the details and the next step on one line."""
        where = f" in {self.where}" if self.where else ""
        detail = f": {self.details}" if self.details else ""
        head = f"{self.release}: {self.patch}: {self.outcome.value}{where}{detail}"
        return f"{head}. {self.next_step}" if self.next_step else head


def attention(table: Table) -> list[Attention]:
    """Return the patches that need manual resolution, sorted by release and series order."""
    return [
        _attention(release, row.name, row.cells[column])
        for column, release in enumerate(table.releases)
        for row in table.rows
        if row.cells[column].outcome.stops
    ]


def _attention(release: Release, patch: str, cell: Cell) -> Attention:
    stops = [file for file in cell.files if file.outcome.stops]
    return Attention(
        release.label,
        patch,
        cell.outcome,
        " and ".join(file.new_path for file in stops),
        "; ".join(dict.fromkeys(file.note for file in stops if file.note)) or cell.note,
        # If a rewrite rule rejects the tree, the note already includes the next step.
        _NEXT[cell.outcome].format(options=release.options) if stops else "",
    )
