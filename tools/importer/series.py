# SPDX-License-Identifier: Apache-2.0
"""Read a patch series: `<subject>.patch` files, and the file `series`, which orders them.

A patch begins with a header, one `Key: value` per line. A line that starts with whitespace
continues the previous value. The header ends at the first empty line; prose may follow. The diff
begins at the first `diff --git` or `---`.
"""

from __future__ import annotations

import datetime
import difflib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.names import shown
from tools.importer.unified import DiffError, FileDiff, parse_diff

REASONS = ("upstream", "build", "google")
REQUIRED = ("Subject", "Owner", "Reason", "Upstream", "Extension-point-considered", "Test")
OPTIONAL = ("Id", "Expires", "Budget", "Cherry-pick", "Rewrite")

# Placeholders in a new patch's header. The header check rejects a patch that still has one.
TEMPLATE = {
    "Owner": "<the team or person responsible>",
    "Reason": f"<{' | '.join(REASONS)}>",
    "Upstream": "<a link, or when it can be dropped>",
    "Extension-point-considered": "<which, and why it is not enough>",
    "Test": "<the test that fails without it>",
}

PATCH_NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.patch")
# These limits exceed the needs of any hand-written header. A file that exceeds them is not a patch.
_HEADER_LINES = 200
_HEADER_LINE = 4000
_KEY = re.compile(r"([A-Z][A-Za-z-]*):(?:\s+(.*))?$")
_BUDGET = re.compile(r"(\d+)(?: lines?)?(?:, (\d+) files?)?")


class SeriesError(UserError):
    """A defect in a patch series. The message names the file and line, and says how to fix it."""


@dataclass(frozen=True)
class Budget:
    """The maximum number of lines that a patch may add, and of files that it may touch.

    None means that the number of files is not limited.
    """

    lines: int
    files: int | None = None


@dataclass(frozen=True)
class Patch:
    """A patch. `line` is its line number in `series`; `header` contains every key in REQUIRED."""

    name: str
    line: int
    header: dict[str, str]
    files: tuple[FileDiff, ...]
    digest: str

    @property
    def added(self) -> int:
        """The number of lines that this patch adds to upstream's files."""
        return sum(hunk.added for diff in self.files for hunk in diff.hunks)

    @property
    def budget(self) -> Budget | None:
        """The parsed Budget header, such as `12` or `12 lines, 2 files`; None if there is none."""
        return _budget(self.header["Budget"]) if "Budget" in self.header else None

    @property
    def expires(self) -> datetime.date | None:
        """The day by which the patch must be reviewed; None if the header has no Expires date."""
        text = self.header.get("Expires")
        return datetime.date.fromisoformat(text) if text else None


@dataclass(frozen=True)
class Series:
    """The patches in a directory, in the order in which they apply."""

    root: Path
    patches: tuple[Patch, ...]

    @property
    def digest(self) -> str:
        """The sha256 of the names, order and bytes of the patches."""
        rows = "".join(f"{patch.digest}  {patch.name}\n" for patch in self.patches)
        return hashlib.sha256(rows.encode()).hexdigest()


def load_series(root: Path) -> Series:
    """Read and validate `root`/series and its patches. Raises SeriesError for the first defect."""
    index = root / "series"
    if not index.is_file():
        raise SeriesError(f"{index}: no such file. A series directory needs it: list the patches")
    listed: dict[str, int] = {}
    on_disk = {path.name for path in root.iterdir() if path.name.endswith((".patch", ".diff"))}
    for number, text in enumerate(_text(index).split("\n"), start=1):
        name = text.split("#", 1)[0].strip()
        if not name:
            continue
        where = f"{index}:{number}"
        if not PATCH_NAME.fullmatch(name):
            raise SeriesError(
                f"{where}: '{shown(name)}' is not a patch name. Use <subject>.patch in kebab case"
            )
        if name in listed:
            raise SeriesError(
                f"{where}: '{name}' is also on line {listed[name]}. Remove one of them"
            )
        if name not in on_disk:
            near = difflib.get_close_matches(name, sorted(on_disk - set(listed)), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise SeriesError(f"{where}: no file '{name}'.{hint} Fix the line or add the file")
        listed[name] = number
    for orphan in sorted(on_disk - set(listed)):
        raise SeriesError(
            f"{root}/{shown(orphan)}: not listed in {index}. Add a line there or delete it"
        )
    patches = tuple(_load_patch(root / name, line) for name, line in listed.items())
    return Series(root, patches)


def overdue(series: Series, today: datetime.date) -> list[Patch]:
    """Return the patches whose Expires date has passed, in series order.

    `load_series` does not check this, because an old commit must still build after that date.
    """
    return [patch for patch in series.patches if patch.expires and patch.expires < today]


def parse_header(text: str, where: str) -> dict[str, str]:
    """Parse and check a patch's header. Error messages refer to the file as `where`."""
    header: dict[str, str] = {}
    key = ""
    for number, line in enumerate(text.split("\n", _HEADER_LINES + 1), start=1):
        if not line.strip() or line.startswith(("diff --git ", "--- ")):
            break
        if number > _HEADER_LINES or len(line) > _HEADER_LINE:
            raise SeriesError(
                f"{where}:{number}: a header is {_HEADER_LINES} lines of {_HEADER_LINE} characters "
                "at most. End it with an empty line; prose goes below"
            )
        if not line.rstrip("\r").replace("\t", " ").isprintable():
            raise SeriesError(
                f"{where}:{number}: '{shown(line)}' has characters that cannot be shown. "
                "Write the header as plain UTF-8 text"
            )
        if line[0].isspace() and key:
            header[key] = f"{header[key]} {line.strip()}".strip()
            continue
        match = _KEY.match(line)
        if match is None:
            raise SeriesError(
                f"{where}:{number}: '{shown(line)}' is not a header. Write 'Key: value'"
            )
        key = match[1]
        if key not in REQUIRED and key not in OPTIONAL:
            near = difflib.get_close_matches(key, REQUIRED + OPTIONAL, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise SeriesError(
                f"{where}:{number}: unknown header '{key}'.{hint} "
                f"Use one of: {', '.join(REQUIRED + OPTIONAL)}"
            )
        if key in header:
            raise SeriesError(f"{where}:{number}: header '{key}' appears twice. Keep one")
        header[key] = (match[2] or "").strip()
    _check_header(header, where)
    return header


def _check_header(header: dict[str, str], where: str) -> None:
    for key in REQUIRED:
        if not header.get(key):
            raise SeriesError(f"{where}: header '{key}' is missing. Every patch states it")
        if header[key] == TEMPLATE.get(key):
            raise SeriesError(f"{where}: header '{key}' is not filled in: {header[key]}. State it")
    if header["Reason"] not in REASONS:
        raise SeriesError(
            f"{where}: Reason is '{header['Reason']}'. Use one of: {', '.join(REASONS)}"
        )
    if "Budget" in header and _budget(header["Budget"]) is None:
        raise SeriesError(
            f"{where}: Budget is '{header['Budget']}'. "
            "Give a number of added lines, or both as in '12 lines, 2 files'"
        )
    if "Expires" in header:
        try:
            datetime.date.fromisoformat(header["Expires"])
        except ValueError:
            raise SeriesError(
                f"{where}: Expires is '{header['Expires']}'. Give a date as YYYY-MM-DD"
            ) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SeriesError(
            f"{path}: not UTF-8 at byte {error.start}. Write it as plain text"
        ) from None


def _load_patch(path: Path, line: int) -> Patch:
    data = path.read_bytes()
    header = parse_header(data.decode("utf-8", "surrogateescape"), str(path))
    try:
        files = parse_diff(data)
    except DiffError as error:
        raise SeriesError(f"{path}:{error.line}: {error.message}. Refresh the patch") from error
    if not files:
        raise SeriesError(f"{path}: no diff in it. Delete the patch or refresh it")
    patch = Patch(path.name, line, header, files, hashlib.sha256(data).hexdigest())
    _check_budget(patch, path)
    return patch


def _check_budget(patch: Patch, path: Path) -> None:
    budget = patch.budget
    if budget is None:
        return
    if patch.added > budget.lines:
        raise SeriesError(
            f"{path}: adds {patch.added} lines, over its Budget of {budget.lines}. "
            "Move code to the seam or raise the budget with a reason"
        )
    touched = {path for diff in patch.files for path in diff.paths}
    if budget.files is not None and len(touched) > budget.files:
        raise SeriesError(
            f"{path}: touches {len(touched)} files, over its Budget of {budget.files}. "
            "Split the patch or raise the budget with a reason"
        )


def _budget(text: str) -> Budget | None:
    match = _BUDGET.fullmatch(text)
    if match is None:
        return None
    return Budget(int(match[1]), int(match[2]) if match[2] is not None else None)
