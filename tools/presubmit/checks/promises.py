# SPDX-License-Identifier: Apache-2.0
"""Check tables of promises (tested properties): each row names existing tests.

Also check that tests/README.md links to every README that has such a table. The tables are
recognized by their column headers. A room is a folder with its own README.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import posixpath
import re

from tools.presubmit import finding, tree

_PAGE = "tests/README.md"
# The column headers of the tables to check. The `catalogue` check covers the table in
# patches/README.md.
_HEADERS = (
    {"promise", "test"},
    {"the promise", "test"},
    {"operator", "check", "test"},
    # tools/importer/README.md has a table that compares the importer with other tools.
    {"point", "importer", "copybara", "electron", "quilt", "stgit", "git rebase", "test"},
)
_QUOTED = re.compile(r"`([^`]+)`")
_FILE = re.compile(
    r"(?:(?P<package>//[\w/.-]*):)?(?P<file>[\w/]+_test)(?:\.py)?(?:::(?P<name>\w+))?"
)
_FUNCTION = re.compile(r"test_[\w.]+|\.\.\.\w+")
_ANY = "..."


@dataclasses.dataclass(frozen=True)
class _Row:
    line: int
    tests: tuple[str, ...]


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield findings for rows without tests, and for tests that do not exist.

    Also yield one for each README with a table that tests/README.md does not link to.
    """
    linked = _links(files.text(_PAGE)) if _PAGE in files.paths else None
    for path in files.paths:
        if posixpath.basename(path) != "README.md":
            continue
        rows = [*_rows(files.lines(path))]
        for row in rows:
            if not row.tests:
                yield _wrong(
                    path, row, "no test", "name one: `x_test`, `test_y` or `//room:x_test`"
                )
            for test in row.tests:
                if not _exists(files, posixpath.dirname(path), test):
                    yield _wrong(path, row, f"no test {test}", "name one of this room, or write it")
        if rows and linked is not None and path not in linked:
            yield finding.Finding(
                path=_PAGE,
                what=f"no link to the promises of {path}",
                next_step="add it to the list",
            )


def _wrong(path: str, row: _Row, what: str, next_step: str) -> finding.Finding:
    return finding.Finding(path=path, line=row.line, what=what, next_step=next_step)


def _rows(lines: list[str]) -> collections.abc.Iterator[_Row]:
    column: int | None = None
    for number, line in enumerate(lines, start=1):
        cells = _cells(line)
        if not cells:
            column = None
        elif column is None:
            header = [cell.lower() for cell in cells]
            column = header.index("test") if set(header) in _HEADERS else -1
        elif 0 <= column < len(cells) and set(cells[0]) != {"-"}:
            tests = (quoted for quoted in _QUOTED.findall(cells[column]) if _is_test(quoted))
            yield _Row(number, tuple(tests))


def _cells(line: str) -> list[str]:
    """Return the cells of a table row. A vertical bar in a code span does not separate cells."""
    if not line.startswith("|"):
        return []
    hidden = _QUOTED.sub(lambda match: match[0].replace("|", "\0"), line)
    return [cell.strip().replace("\0", "|") for cell in hidden.strip().strip("|").split("|")]


def _is_test(quoted: str) -> bool:
    return bool(_FILE.fullmatch(quoted) or _FUNCTION.fullmatch(quoted))


def _exists(files: tree.Tree, room: str, test: str) -> bool:
    match = _FILE.fullmatch(test)
    if match is None:
        return any(_defines(files.text(path), test) for path in _tests_of(files, room))
    if match["package"] is not None:
        package = match["package"].removeprefix("//")
        build = files.text(f"{package}/BUILD") if f"{package}/BUILD" in files.paths else ""
        named = re.search(rf'name = "{match["file"]}"', build)
        candidates = [f"{package}/{match['file']}.py"]
        if named and match["name"] is None:
            return True
    else:
        candidates = [
            path for path in _tests_of(files, room) if f"/{path}".endswith(f"/{match['file']}.py")
        ]
    present = [path for path in candidates if path in files.paths]
    return any(match["name"] is None or _defines(files.text(p), match["name"]) for p in present)


def _tests_of(files: tree.Tree, room: str) -> collections.abc.Iterator[str]:
    """Yield the test files under `room`, or under its parent instead if that is also a room.

    A parent that is a top-level folder does not count as a room here.
    """
    parent = posixpath.dirname(room)
    owner = parent if f"{parent}/README.md" in files.paths and "/" in parent else room
    return (p for p in files.paths if p.startswith(f"{owner}/") and p.endswith("_test.py"))


def _defines(text: str, name: str) -> bool:
    pattern = r"\w*".join(map(re.escape, name.split(_ANY)))
    return bool(re.search(rf"^ *def {pattern}\(", text, re.MULTILINE))


def _links(text: str) -> set[str]:
    folder = posixpath.dirname(_PAGE)
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    return {posixpath.normpath(posixpath.join(folder, target)) for target in targets} | {_PAGE}
