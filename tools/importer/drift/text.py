# SPDX-License-Identifier: Apache-2.0
"""Render the drift table as machine-independent plain text, for pipes, logs and git."""

from __future__ import annotations

from tools.importer.drift.advice import attention
from tools.importer.drift.table import Table

_GAP = "  "


def to_text(table: Table) -> str:
    """Return the table, the counts per release, and the patches that need manual resolution."""
    return "\n".join([*_grid(table), "", *summary(table), *attention_lines(table)]) + "\n"


def title(table: Table) -> str:
    """Return the table's title: the number of patches, and the series."""
    count = len(table.rows)
    return f"{count} {_plural(count, 'patch', 'patches')} of {table.series}"


def summary(table: Table) -> list[str]:
    """Return one line per release with the number of patches for each outcome."""
    lines = []
    for column, release in enumerate(table.releases):
        counts = table.counts(column)
        counted = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items())
        back = f"; back after a revert: {', '.join(release.returned)}" if release.returned else ""
        lines.append(shown(f"{release.label}: {counted or 'no patches'}{back}"))
    return lines


def attention_lines(table: Table) -> list[str]:
    """Return a heading and one line per patch that needs manual resolution; [] if none does."""
    items = attention(table)
    if not items:
        return []
    heading = f"{len(items)} {_plural(len(items), 'needs', 'need')} you:"
    return ["", heading, *(f"  {shown(item.line)}" for item in items)]


def shown(text: str) -> str:
    """Return untrusted text with control characters escaped, so that it is safe to print."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


def _grid(table: Table) -> list[str]:
    rows = [[title(table), *(release.label for release in table.releases)]]
    rows += [[row.name, *(cell.outcome.value for cell in row.cells)] for row in table.rows]
    rows = [[shown(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], _GAP.join("-" * width for width in widths), *lines[1:]]


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
