# SPDX-License-Identifier: Apache-2.0
"""The drift table as a self-contained HTML page, without scripts, network requests or web fonts.

`_text` escapes all text from upstream and from patches. The content security policy of the page is
a second line of defense.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from tools.importer.drift.advice import Attention, attention
from tools.importer.drift.page_style import STYLE
from tools.importer.drift.table import Cell, FileCell, Release, Row, Table
from tools.importer.drift.text import shown, summary, title
from tools.importer.engine import Outcome, Pair

# Each outcome also has a symbol, for readers who cannot distinguish the colors.
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
    Outcome.CLEAN: "every hunk applies at its recorded lines",
    Outcome.OFFSET: "the same lines are elsewhere in the file",
    Outcome.THREE_WAY: "lines around it changed, but the merge is unambiguous",
    Outcome.RESOLVED: "its rule generated it again, or a user resolved it",
    Outcome.LANDED: "upstream contains it, so an import drops it",
    Outcome.NOT_APPLICABLE: "this origin lacks its files; it is kept",
    Outcome.SKIPPED: "a user dropped it",
    Outcome.SUSPECTED: "upstream seems to contain it with changes",
    Outcome.AMBIGUOUS: "the merge has two possible results",
    Outcome.FILE_GONE: "upstream no longer has the file",
    Outcome.CONFLICT: "upstream and the patch changed the same lines",
}


@dataclass(frozen=True)
class Section:
    """A project's section on the page for all projects. Without a table, it shows `note`."""

    project: str
    table: Table | None
    note: str = ""


def to_page(table: Table) -> str:
    """Return the page. The output is deterministic."""
    head = f"Drift: {title(table)}"
    items = _items(table, "")
    above = '<p class="good">No patch needs you on any of these releases.</p>'
    if items:
        above = f"<h2>{_needs(len(items))}</h2>\n<ul>\n{''.join(items)}</ul>\n<h2>All</h2>"
    return _page(head, f"{_carried(table)}\n{above}\n{_table(table, '')}", [table])


def to_page_of_projects(sections: Sequence[Section]) -> str:
    """Return a page for all projects, with links to the patches that need manual resolution."""
    head = f"Drift: {len(sections)} {'project' if len(sections) == 1 else 'projects'}"
    items: list[str] = []
    body: list[str] = []
    for section in sections:
        anchor = f"{section.project}-"
        name = _text(section.project)
        if section.table is None:
            part = f"<p>{_text(section.note)}</p>\n"
        else:
            items += _items(section.table, anchor, project=section.project)
            part = f"{_carried(section.table)}\n{_table(section.table, anchor)}"
        body.append(f'<section id="{_text(section.project)}">\n<h2>{name}</h2>\n{part}</section>')
    above = '<p class="good">No patch of any project needs you.</p>'
    if items:
        above = f"<h2>{_needs(len(items))}</h2>\n<ul>\n{''.join(items)}</ul>"
    links = "".join(
        f'<li><a href="#{_text(each.project)}">{_text(each.project)}</a>: {_summary(each)}</li>\n'
        for each in sections
    )
    tables = [each.table for each in sections if each.table is not None]
    whole = f"<ul>\n{links}</ul>" if links else "<p>There is no project.</p>"
    return _page(head, "\n".join([whole, above, *body]), tables)


def _page(head: str, body: str, tables: Sequence[Table]) -> str:
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
{body}
{_legend(tables)}
</body>
</html>
"""


def _carried(table: Table) -> str:
    series = f"{_text(table.series)}{_commit(table.base_commit)}"
    return f'<p class="sub">Carried from {series} to each release.</p>'


def _table(table: Table, prefix: str) -> str:
    return f"""<div class="wide">
<table>
<thead><tr><th scope="col">patch</th>{"".join(map(_head, table.releases))}</tr></thead>
<tfoot><tr><th scope="row">in all</th>{_counts(table)}</tr></tfoot>
{"".join(_rows(table, row, prefix) for row in table.rows)}</table>
</div>"""


def _needs(count: int) -> str:
    return f"{count} {'patch needs' if count == 1 else 'patches need'} you"


def _summary(section: Section) -> str:
    if section.table is None:
        return _text(section.note)
    return _text("; ".join(summary(section.table)))


def _items(table: Table, prefix: str, *, project: str = "") -> list[str]:
    """Return one list item per patch that needs manual resolution, with a link to its details."""
    columns = {release.label: number for number, release in enumerate(table.releases)}
    name = f"<b>{_text(project)}</b> " if project else ""
    return [
        f"<li>{_badge(item.outcome)} {name}<b>{_text(item.release)}</b> "
        f'<a href="#{_anchor(prefix, item.patch)}-{columns[item.release]}">'
        f"{_text(item.patch)}</a>{_where(item)}: {_text(item.details)}. "
        f'<span class="next">{_marked_up(item.next_step)}</span></li>\n'
        for item in attention(table)
    ]


def _where(item: Attention) -> str:
    return f" in <code>{_text(item.where)}</code>" if item.where else ""


def _head(release: Release) -> str:
    origin = str(release.origin.get("kind", ""))
    back = "".join(f"<br>back: {_text(name)}" for name in release.returned)
    return (
        f'<th scope="col">{_text(release.label)}<small>{_text(origin)}'
        f"{_commit(release.commit)}{back}</small></th>"
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


def _rows(table: Table, row: Row, prefix: str) -> str:
    """Return two table rows for a patch: its outcomes, and its subject with expandable details."""
    anchor = _anchor(prefix, row.name)
    cells = "".join(
        f'<td><a href="#{anchor}-{number}">{_badge(cell.outcome)}</a></td>'
        if cell.outcome.stops
        else f"<td>{_badge(cell.outcome)}</td>"
        for number, cell in enumerate(row.cells)
    )
    details = "".join(
        _detail(release, cell, f"{anchor}-{number}")
        for number, (release, cell) in enumerate(zip(table.releases, row.cells, strict=True))
    )
    return (
        f'<tbody id="{anchor}">\n'
        f'<tr><th scope="row">{_text(row.name)}</th>{cells}</tr>\n'
        f'<tr class="more"><td colspan="{len(row.cells) + 1}">'
        f"<details><summary>{_text(row.subject)}</summary>\n"
        f"<p>Owner: {_text(row.owner)}. Reason: {_text(row.reason)}. "
        f"Upstream: {_text(row.upstream)}.</p>\n"
        f"<dl>\n{details}</dl></details></td></tr>\n</tbody>\n"
    )


def _detail(release: Release, cell: Cell, anchor: str) -> str:
    if cell.files:
        body = "".join(_file(file) for file in cell.files)
    else:
        body = f"<p>{_text(cell.note)}</p>\n"
    name = f"{_text(release.label)} {_badge(cell.outcome)}"
    return f'<dt id="{anchor}">{name}</dt>\n<dd>{body}</dd>\n'


def _file(file: FileCell) -> str:
    moved = f" → <code>{_text(file.new_path)}</code>" if file.new_path != file.path else ""
    note = f": {_text(file.note)}" if file.note else ""
    inner = _sides(file.pairs) if file.pairs else _diff(file.inner) if file.inner else ""
    return (
        f"<p><code>{_text(file.path)}</code>{moved} "
        f"<i>{_text(file.outcome.value)}</i>{note}</p>\n{inner}"
    )


def _sides(pairs: Sequence[Pair]) -> str:
    rows = []
    for pair in pairs:
        classes = ("", "") if pair.same else ("cut", "add")
        cells = "".join(
            f'<td><code class="{kind}">{_text(text or "", keep=_TAB)}</code></td>'
            for kind, text in zip(classes, (pair.patch, pair.upstream), strict=True)
        )
        rows.append(f"<tr>{cells}</tr>\n")
    head = '<tr><th scope="col">the patch</th><th scope="col">upstream</th></tr>\n'
    return f'<table class="sides">\n{head}{"".join(rows)}</table>\n'


def _diff(inner: str) -> str:
    lines = []
    for line in inner.removesuffix("\n").split("\n"):
        kind = {"+": "add", "-": "cut", "@": "at"}.get(line[:1], "")
        lines.append(f'<span class="{kind}">{_text(line, keep=_TAB)}</span>')
    return f"<pre>{chr(10).join(lines)}</pre>\n"


def _legend(tables: Sequence[Table]) -> str:
    present = {cell.outcome for table in tables for row in table.rows for cell in row.cells}
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


def _anchor(prefix: str, name: str) -> str:
    return f"p-{_text(prefix)}{_text(name)}"


def _marked_up(text: str) -> str:
    """Return `text` as HTML, with the parts between backquotes as code."""
    parts = text.split("`")
    return "".join(
        f"<code>{_text(part)}</code>" if number % 2 else _text(part)
        for number, part in enumerate(parts)
    )


def _text(text: str, *, keep: str = "") -> str:
    """Escape `text` for HTML. Control characters outside `keep` become visible escapes."""
    return html.escape("".join(char if char in keep else shown(char) for char in text), quote=True)
