# SPDX-License-Identifier: Apache-2.0
"""The drift table as JSON, for programs and for the copy committed in patches/.

The keys and their order are part of the format. The output is deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.importer.drift.table import Cell, FileCell, Release, Row, Table
from tools.importer.engine import Outcome
from tools.importer.errors import UserError

FORMAT = 1


def to_document(table: Table) -> dict[str, object]:
    """Return the table as JSON data. `from_document` is the inverse."""
    return {
        "format": FORMAT,
        "series": table.series,
        "digest": table.digest,
        "base_commit": table.base_commit,
        "stops": table.stops,
        "releases": [
            {
                "label": release.label,
                "commit": release.commit,
                "options": release.options,
                "origin": dict(release.origin),
                "counts": {outcome.value: count for outcome, count in table.counts(column).items()},
                **({"returned": list(release.returned)} if release.returned else {}),
            }
            for column, release in enumerate(table.releases)
        ],
        "patches": [_row(table, row) for row in table.rows],
    }


def to_json(table: Table) -> str:
    """Return the table as JSON text."""
    return json.dumps(to_document(table), indent=1) + "\n"


def from_document(data: Mapping[str, object], *, where: str) -> Table:
    """Parse JSON data into a table. Raises a UserError naming `where` if it is malformed."""
    if data.get("format") != FORMAT:
        raise UserError(
            f"{where}: format is {data.get('format')!r}, this tool reads {FORMAT}. Generate it again"
        )
    try:
        return _table(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{where}: damaged ({error!r}). Generate it again") from None


def _row(table: Table, row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "subject": row.subject,
        "owner": row.owner,
        "reason": row.reason,
        "upstream": row.upstream,
        "releases": {
            release.label: {
                "outcome": cell.outcome.value,
                "note": cell.note,
                "files": [_file(file) for file in cell.files],
            }
            for release, cell in zip(table.releases, row.cells, strict=True)
        },
    }


def _file(file: FileCell) -> dict[str, object]:
    """Return a file's data. Omit the new path, the note and the diff if they are empty."""
    data: dict[str, object] = {"path": file.path, "outcome": file.outcome.value}
    if file.new_path != file.path:
        data["new_path"] = file.new_path
    if file.note:
        data["note"] = file.note
    if file.inner:
        data["inner"] = file.inner.removesuffix("\n").split("\n")
    return data


def _table(data: Mapping[str, object]) -> Table:
    releases = tuple(
        Release(
            item["label"],
            item["commit"],
            item["options"],
            item["origin"],
            tuple(item.get("returned", ())),
        )
        for item in _maps(data["releases"])
    )
    rows = tuple(
        Row(
            item["name"],
            item["subject"],
            item["owner"],
            item["reason"],
            item["upstream"],
            tuple(_cell(item["releases"][release.label]) for release in releases),
        )
        for item in _maps(data["patches"])
    )
    commit = data["base_commit"]
    return Table(
        str(data["series"]),
        str(data["digest"]),
        None if commit is None else str(commit),
        releases,
        rows,
    )


def _cell(data: Mapping[str, object]) -> Cell:
    files = tuple(
        FileCell(
            item["path"],
            item.get("new_path", item["path"]),
            Outcome(item["outcome"]),
            item.get("note", ""),
            "".join(f"{line}\n" for line in item.get("inner", ())),
        )
        for item in _maps(data["files"])
    )
    return Cell(Outcome(data["outcome"]), str(data["note"]), files)


def _maps(data: object) -> list[dict[str, Any]]:
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise TypeError("a list of objects was expected")
    return data
