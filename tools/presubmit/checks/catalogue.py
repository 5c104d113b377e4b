# SPDX-License-Identifier: Apache-2.0
"""Check the catalogue of changes to torch: every id is unique and names an existing test.

A patch's header lists its ids (`Id`). Changes that need no patch are in `catalogue.json`. The table
in patches/README.md and the summary above it are generated from both sources.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import json
import pathlib
import re
import statistics

from tools.importer import Patch, SeriesError, load_series
from tools.presubmit import finding, tree

_PIN = "third_party/torch/pin.json"
_SERIES = "patches/torch"
_EXTENSIONS = f"{_SERIES}/catalogue.json"
_PAGE = "patches/README.md"
_BEGIN, _END = "<!-- catalogue: begin -->", "<!-- catalogue: end -->"
_KINDS = ("extension point", "not needed")
_MEDIAN = 12  # the limit for the median number of changed lines per patch
_UPSTREAMABLE = {
    "upstream": "yes",
    "build": "no: how we build",
    "google": "no: specific to a monorepo",
}
_ID = re.compile(r"[A-Z]\d\d")
_TEST = re.compile(r"[^\s,]+::\w+")
_FIX = "run: ./bazelw run //tools/presubmit -- --fix"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the catalogue: one change to torch. `source` is the file that defines its id."""

    id: str
    spot: str
    kind: str
    what: str
    upstreamable: str
    tests: tuple[str, ...]
    releases: tuple[str, ...]
    source: str


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """Each release's patch series, and the table rows. `tag` is the release that the build uses."""

    tag: str
    series: dict[str, tuple[Patch, ...]]
    rows: tuple[Row, ...]

    @property
    def changed(self) -> list[int]:
        """Return the number of changed lines in each patch for `tag`, or [0] if `tag` has none."""
        return [_changed(patch) for patch in self.series[self.tag]] or [0]


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield findings for wrong ids, missing tests, large patches and an outdated table."""
    if _EXTENSIONS not in files.paths:
        return
    try:
        catalogue = read(files)
    except (SeriesError, KeyError, TypeError, ValueError) as error:
        yield finding.Finding(
            path=_EXTENSIONS, what=f"it cannot be read: {error!r}", next_step="correct the entry"
        )
        return
    yield from _doubtful(files, catalogue.rows)
    median = statistics.median(catalogue.changed)
    if median > _MEDIAN:
        yield finding.Finding(
            path=f"{_SERIES}/{catalogue.tag}/series",
            what=f"half of the patches change {median:g} lines or more, {_MEDIAN} are allowed",
            next_step="keep a hook of a line or two in upstream's file; move its code to the seam",
        )
    if _page(files.text(_PAGE), catalogue) != files.text(_PAGE):
        yield finding.Finding(
            path=_PAGE,
            what="the table does not match the patches and the catalogue",
            next_step=_FIX,
        )


def fix(files: tree.Tree) -> None:
    """Write the summary and the table to patches/README.md."""
    if _EXTENSIONS in files.paths:
        text = _page(files.text(_PAGE), read(files))
        (files.root / _PAGE).write_text(text, encoding="utf-8")


def read(files: tree.Tree) -> Catalogue:
    """Read the catalogue, sorted by id. Exceptions of the JSON and patch parsers propagate."""
    tag = json.loads(files.text(_PIN))["tag"]
    series = {
        path.parent.name: load_series(files.root / path.parent).patches
        for path in map(pathlib.PurePosixPath, files.paths)
        if path.name == "series" and str(path.parent.parent) == _SERIES
    }
    rows: list[Row] = []
    named: set[str] = set()
    # A patch that is in the patch series of several releases counts only once, for the first of
    # them. The release that the build uses comes first.
    for each in sorted(series, key=lambda label: (label != tag, label)):
        for patch in series[each]:
            if patch.name not in named:
                rows += _rows_of(patch, [t for t in series if _has(series[t], patch)], each)
        named |= {patch.name for patch in series[each]}
    for entry in json.loads(files.text(_EXTENSIONS)):
        rows.append(
            Row(
                entry["id"],
                entry["spot"],
                entry["kind"],
                entry["what"],
                entry["upstreamable"],
                tuple(_TEST.findall(entry["test"])),
                (),
                _EXTENSIONS,
            )
        )
    return Catalogue(tag, series, tuple(sorted(rows, key=lambda row: row.id)))


def figures(catalogue: Catalogue) -> str:
    """Return the summary above the table: the numbers of patches and ids, and patch sizes."""
    others = "".join(
        f", {len(patches)} in that of {tag}"
        for tag, patches in sorted(catalogue.series.items())
        if tag != catalogue.tag
    )
    counts = collections.Counter({row.id: row.kind for row in catalogue.rows}.values())
    return (
        f"{len(catalogue.series[catalogue.tag])} patches in the series of {catalogue.tag}{others}.\n"
        "Changed lines of a patch, those that it removes and those that it adds: "
        f"{statistics.median(catalogue.changed):g} in the median, {max(catalogue.changed)} at most.\n"
        f"{counts.total()} ids: {counts['patch']} by patches, {counts['extension point']} by extension "
        f"points, {counts['not needed']} where nothing is needed.\n"
    )


def table(rows: collections.abc.Iterable[Row]) -> str:
    """Return the catalogue as a Markdown table."""
    lines = [
        "| id | spot | kind | what is done | upstreamable | test |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        tests = ", ".join(f"`{test.partition('::')[2]}`" for test in row.tests)
        releases = f" ({', '.join(row.releases)})" if row.releases else ""
        lines.append(
            f"| {row.id} | {row.spot} | {row.kind}{releases} | {row.what} | {row.upstreamable} "
            f"| {tests} |"
        )
    return "\n".join(lines) + "\n"


def _changed(patch: Patch) -> int:
    hunks = [hunk for diff in patch.files for hunk in diff.hunks]
    return sum(len(hunk.old) - len(hunk.new) + 2 * hunk.added for hunk in hunks)


def _rows_of(patch: Patch, releases: list[str], tag: str) -> collections.abc.Iterator[Row]:
    spots = sorted({path.removeprefix("torch/") for diff in patch.files for path in diff.paths})
    shown = ", ".join(f"`{spot}`" for spot in spots[:2])
    for identity in _ID.findall(patch.header.get("Id", "")):
        yield Row(
            identity,
            shown + (f" and {len(spots) - 2} more" if len(spots) > 2 else ""),
            "patch",
            patch.header["Subject"],
            _UPSTREAMABLE[patch.header["Reason"]],
            tuple(_TEST.findall(patch.header["Test"])),
            tuple(sorted(releases)),
            f"{_SERIES}/{tag}/{patch.name}",
        )


def _has(patches: tuple[Patch, ...], patch: Patch) -> bool:
    return any(each.name == patch.name for each in patches)


def _doubtful(
    files: tree.Tree, rows: collections.abc.Iterable[Row]
) -> collections.abc.Iterator[finding.Finding]:
    first_rows: dict[str, Row] = {}
    for row in rows:
        if not _ID.fullmatch(row.id):
            yield _wrong(row, f"'{row.id}' is not an id", "write a letter and two digits: F01")
        if row.id in first_rows and first_rows[row.id].source != row.source:
            yield _wrong(
                row, f"{row.id} is also in {first_rows[row.id].source}", "keep one of them"
            )
        first_rows[row.id] = row
        if row.kind != "patch" and row.kind not in _KINDS:
            yield _wrong(row, f"{row.id}: kind is '{row.kind}'", f"use one of: {', '.join(_KINDS)}")
        if not row.tests:
            yield _wrong(row, f"{row.id} has no test", "name it as path/to/x_test.py::test_name")
        for test in row.tests:
            path, _, name = test.partition("::")
            text = files.text(path) if path in files.paths else ""
            if not re.search(rf"^ *def {re.escape(name)}\(", text, re.MULTILINE):
                yield _wrong(row, f"{row.id}: no test {test}", "name an existing test")


def _wrong(row: Row, what: str, next_step: str) -> finding.Finding:
    return finding.Finding(path=row.source, what=what, next_step=next_step)


def _page(page: str, catalogue: Catalogue) -> str:
    section = f"{_BEGIN}\n{figures(catalogue)}\n{table(catalogue.rows)}{_END}"
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        return f"{page.rstrip()}\n\n## Catalogue of changes\n\n{section}\n"
    return f"{before}{section}{after}"
