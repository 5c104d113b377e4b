# SPDX-License-Identifier: Apache-2.0
"""The table as one self-contained HTML page: no scripts, requests or fonts.

All text from upstream or from a patch is escaped by `_text`. The page's content security policy is
a second defence.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from tools.importer.drift.advice import Attention, attention
from tools.importer.drift.page_style import STYLE
from tools.importer.drift.table import Cell, FileCell, Release, Row, Table
from tools.importer.drift.text import shown, title
from tools.importer.engine import Outcome

# A sign next to each outcome, for readers who cannot distinguish colours.
_SIGNS = {
    Outcome.CLEAN: "✓",
    Outcome.OFFSET: "↕",
    Outcome.THREE_WAY: "⋔",
    Outcome.RESOLVED: "✎",
    Outcome.LANDED: "★",
    Outcome.NOT_APPLICABLE: "·",
    Outcome.SKIPPED: "⊘",
    Outcome.SUSPECTED: "≈",
    Outcome.AMBIGUOUS: "?",
    Outcome.FILE_GONE: "∅",
    Outcome.CONFLICT: "✗",
}
_TAB = "\t"
_MEANINGS = {
    Outcome.CLEAN: "every hunk at its very lines",
    Outcome.OFFSET: "the same lines, at another place",
    Outcome.THREE_WAY: "lines around it changed; merged without doubt",
    Outcome.RESOLVED: "made anew by its rule, or settled by a person",
    Outcome.LANDED: "upstream has it: it drops out by itself",
    Outcome.NOT_APPLICABLE: "this origin does not hold such files; kept",
    Outcome.SKIPPED: "dropped by a person",
    Outcome.SUSPECTED: "upstream seems to have it, with a difference",
    Outcome.AMBIGUOUS: "the merge could mean two things",
    Outcome.FILE_GONE: "upstream no longer has the file",
    Outcome.CONFLICT: "upstream and the patch changed the same lines",
}


def to_page(table: Table) -> str:
    """Return the page. The same table gives the same bytes."""
    head = f"Drift: {title(table)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_text(head)}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{_text(head)}</h1>
<p class="sub">Carried from {_text(table.series)}{_commit(table.base_commit)} to each release.</p>
{_attention(attention(table))}
<div class="wide">
<table>
<thead><tr><th scope="col">patch</th>{"".join(map(_head, table.releases))}</tr></thead>
<tfoot><tr><th scope="row">in all</th>{_counts(table)}</tr></tfoot>
{"".join(_rows(table, row) for row in table.rows)}</table>
</div>
{_legend(table)}
</body>
</html>
"""


def _attention(items: Sequence[Attention]) -> str:
    if not items:
        return '<p class="good">No patch needs you on any of these releases.</p>'
    lines = "".join(
        f"<li>{_badge(item.outcome)} <b>{_text(item.release)}</b> "
        f'<a href="#{_anchor(item.patch)}">{_text(item.patch)}</a>{_where(item)}: '
        f"{_text(item.found)}. "
        f'<span class="next">{_marked_up(item.next_step)}</span></li>\n'
        for item in items
    )
    verb = "patch needs" if len(items) == 1 else "patches need"
    return f"<h2>{len(items)} {verb} you</h2>\n<ul>\n{lines}</ul>\n<h2>All</h2>"


def _where(item: Attention) -> str:
    return f" in <code>{_text(item.where)}</code>" if item.where else ""


def _head(release: Release) -> str:
    origin = str(release.origin.get("kind", ""))
    return (
        f'<th scope="col">{_text(release.label)}<small>{_text(origin)}'
        f"{_commit(release.commit)}</small></th>"
    )


def _counts(table: Table) -> str:
    return "".join(
        "<td>"
        + "<br>".join(
            f"{count} {_text(outcome.value)}" for outcome, count in table.counts(column).items()
        )
        + "</td>"
        for column in range(len(table.releases))
    )


def _rows(table: Table, row: Row) -> str:
    """Return a patch as two rows: its outcomes, and its subject, which expands to the details."""
    cells = "".join(f"<td>{_badge(cell.outcome)}</td>" for cell in row.cells)
    details = "".join(
        _detail(release, cell) for release, cell in zip(table.releases, row.cells, strict=True)
    )
    return (
        f'<tbody id="{_anchor(row.name)}">\n'
        f'<tr><th scope="row">{_text(row.name)}</th>{cells}</tr>\n'
        f'<tr class="more"><td colspan="{len(row.cells) + 1}">'
        f"<details><summary>{_text(row.subject)}</summary>\n"
        f"<p>Owner: {_text(row.owner)}. Reason: {_text(row.reason)}. "
        f"Upstream: {_text(row.upstream)}.</p>\n"
        f"<dl>\n{details}</dl></details></td></tr>\n</tbody>\n"
    )


def _detail(release: Release, cell: Cell) -> str:
    if cell.files:
        body = "".join(_file(file) for file in cell.files)
    else:
        body = f"<p>{_text(cell.note)}</p>\n"
    return f"<dt>{_text(release.label)} {_badge(cell.outcome)}</dt>\n<dd>{body}</dd>\n"


def _file(file: FileCell) -> str:
    moved = f" → <code>{_text(file.new_path)}</code>" if file.new_path != file.path else ""
    note = f": {_text(file.note)}" if file.note else ""
    inner = _diff(file.inner) if file.inner else ""
    return (
        f"<p><code>{_text(file.path)}</code>{moved} "
        f"<i>{_text(file.outcome.value)}</i>{note}</p>\n{inner}"
    )


def _diff(inner: str) -> str:
    lines = []
    for line in inner.removesuffix("\n").split("\n"):
        kind = {"+": "add", "-": "cut", "@": "at"}.get(line[:1], "")
        lines.append(f'<span class="{kind}">{_text(line, keep=_TAB)}</span>')
    return f"<pre>{chr(10).join(lines)}</pre>\n"


def _legend(table: Table) -> str:
    present = {cell.outcome for row in table.rows for cell in row.cells}
    items = "".join(
        f"<li>{_badge(outcome)} {_text(_MEANINGS[outcome])}</li>\n"
        for outcome in Outcome
        if outcome in present
    )
    return f'<h2>What the words mean</h2>\n<ul class="legend">\n{items}</ul>'


def _badge(outcome: Outcome) -> str:
    name = outcome.value.replace(" ", "-")
    return (
        f'<span class="o o-{name}" title="{_text(_MEANINGS[outcome])}">'
        f'<span aria-hidden="true">{_SIGNS[outcome]}</span> {_text(outcome.value)}</span>'
    )


def _commit(commit: str | None) -> str:
    return f" at <code>{_text(commit[:12])}</code>" if commit else ""


def _anchor(name: str) -> str:
    return "p-" + _text(name)


def _marked_up(text: str) -> str:
    """Return text as HTML, with words between backquotes marked as code."""
    parts = text.split("`")
    return "".join(
        f"<code>{_text(part)}</code>" if number % 2 else _text(part)
        for number, part in enumerate(parts)
    )


def _text(text: str, *, keep: str = "") -> str:
    """Return text escaped for HTML. Control characters are spelled out."""
    return html.escape("".join(char if char in keep else shown(char) for char in text), quote=True)
