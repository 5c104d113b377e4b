# SPDX-License-Identifier: Apache-2.0
"""Render the drift table for a terminal, in color, and fit it to the terminal's width."""

from __future__ import annotations

import io

from tools.importer.drift.table import Table
from tools.importer.drift.text import attention_lines, shown, summary, title
from tools.importer.engine import Outcome

_STYLES = {
    Outcome.CLEAN: "green",
    Outcome.OFFSET: "green",
    Outcome.THREE_WAY: "cyan",
    Outcome.RESOLVED: "cyan",
    Outcome.LANDED: "bold green",
    Outcome.NOT_APPLICABLE: "dim",
    Outcome.SKIPPED: "dim",
    Outcome.SUSPECTED: "bold yellow",
    Outcome.AMBIGUOUS: "bold yellow",
    Outcome.FILE_GONE: "bold magenta",
    Outcome.CONFLICT: "bold red",
}


def to_terminal(table: Table, *, width: int) -> str:
    """Return the table with color codes, for a terminal of `width` columns."""
    # Imported lazily, because importing rich takes as long as running a short command, and piped
    # output never needs it.
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=width, highlight=False
    )
    grid = RichTable(box=None, pad_edge=False, header_style="bold")
    grid.add_column(shown(title(table)), overflow="fold")
    for release in table.releases:
        grid.add_column(Text(shown(release.label)), overflow="fold")
    for row in table.rows:
        cells = [Text(cell.outcome.value, style=_STYLES[cell.outcome]) for cell in row.cells]
        grid.add_row(Text(shown(row.name)), *cells)
    console.print(grid)
    for line in ["", *summary(table), *attention_lines(table)]:
        console.print(Text(line))
    return out.getvalue()
