# SPDX-License-Identifier: Apache-2.0
"""The table of merge outcomes, with a row per patch and a column per release.

Only the files that the patches touch are read, unless upstream moved one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tools.importer.engine import (
    Base,
    Decision,
    Outcome,
    Pair,
    PatchResult,
    Settlements,
    Skip,
    carry,
    pairs_of,
)
from tools.importer.errors import UserError
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Snapshot

REWRITE = "Rewrite"

# A function that regenerates all rule-generated patches for a tree. It returns the files that each
# patch changes, keyed by patch name. Raises UserError if a rule rejects the tree.
Remake = Callable[[Series, Snapshot], Mapping[str, Decision]]


@dataclass(frozen=True)
class Target:
    """A release to check. `options` select it on the command line, such as `--tag v2.14.1`.

    `returned` names the landed patches that upstream has reverted; `snapshot` has them applied.
    """

    options: str
    snapshot: Snapshot
    returned: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileCell:
    """The outcome for one file of a patch, on one release.

    `inner` is the diff from the patch's version to upstream's. For a 3-way merge, it is the diff
    from the old lines in the patch's hunks to upstream's lines. `pairs` contains both versions side
    by side if upstream is suspected to contain the patch; JSON documents omit it.
    """

    path: str
    new_path: str
    outcome: Outcome
    note: str = ""
    inner: str = ""
    pairs: tuple[Pair, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Cell:
    """The outcome of a patch on a release.

    `files` is empty if the patch landed upstream together with other patches.
    """

    outcome: Outcome
    note: str
    files: tuple[FileCell, ...]


@dataclass(frozen=True)
class Release:
    """A column of the table. `origin` is a pin from which the same files can be fetched again."""

    label: str
    commit: str | None
    options: str
    origin: Mapping[str, object]
    returned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of the table: fields of a patch's header, and a cell for each release."""

    name: str
    subject: str
    owner: str
    reason: str
    upstream: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """All outcomes, in series order. `series` is the patch series' label and `digest` its hash."""

    series: str
    digest: str
    base_commit: str | None
    releases: tuple[Release, ...]
    rows: tuple[Row, ...]

    def counts(self, column: int) -> dict[Outcome, int]:
        """Return the number of patches per outcome on one release, best outcome first."""
        counts = Counter(row.cells[column].outcome for row in self.rows)
        return {outcome: counts[outcome] for outcome in Outcome if counts[outcome]}

    @property
    def stops(self) -> bool:
        """Return whether importing any of the releases would require manual resolution."""
        return any(cell.outcome.stops for row in self.rows for cell in row.cells)


def measure(
    series: Series,
    base: Base,
    targets: Iterable[Target],
    *,
    remake: Remake | None = None,
    settlements: Settlements | None = None,
) -> Table:
    """Return the outcomes of rebasing `series` from `base` onto each target.

    Patches that need manual resolution are skipped. `remake` regenerates the patches that rules
    generate; without it, they are merged like the others. `settlements` are the stored conflict
    resolutions that an import would reuse. Targets are consumed one by one, so an iterator may
    fetch them lazily. Raises UserError if the series does not apply to its recorded base.
    """
    releases: list[Release] = []
    columns: list[tuple[Cell, ...]] = []
    for target in targets:
        release, cells = measure_release(
            series, base, target, remake=remake, settlements=settlements
        )
        if release.label in {other.label for other in releases}:
            raise UserError(f"{release.label}: named twice. Name each release once")
        releases.append(release)
        columns.append(cells)
    rows = [
        _row(patch, tuple(cells[number] for cells in columns))
        for number, patch in enumerate(series.patches)
    ]
    return Table(series.root.name, series.digest, base.commit, tuple(releases), tuple(rows))


def measure_release(
    series: Series,
    base: Base,
    target: Target,
    *,
    remake: Remake | None = None,
    settlements: Settlements | None = None,
) -> tuple[Release, tuple[Cell, ...]]:
    """Return one column of the table: the release, and its cells in series order."""
    snapshot = target.snapshot
    release = Release(
        snapshot.label, snapshot.commit, target.options, dict(snapshot.pin), target.returned
    )
    ruled = [patch.name for patch in series.patches if REWRITE in patch.header]
    decisions: Mapping[str, Decision] = {}
    refused = ""
    if remake is not None and ruled:
        try:
            decisions = remake(series, snapshot)
        except UserError as problem:
            refused = str(problem)
            decisions = {name: Skip() for name in ruled}
    carried = carry(
        series, base, snapshot, decisions=decisions, keep_going=True, settlements=settlements
    )
    cells = [_cell(series, result) for result in carried.results]
    for number, patch in enumerate(series.patches):
        if patch.name in decisions:
            cells[number] = (
                Cell(Outcome.CONFLICT, refused, ()) if refused else _generated_cell(cells[number])
            )
    return release, tuple(cells)


def _row(patch: Patch, cells: tuple[Cell, ...]) -> Row:
    header = patch.header
    return Row(
        patch.name, header["Subject"], header["Owner"], header["Reason"], header["Upstream"], cells
    )


def _cell(series: Series, result: PatchResult) -> Cell:
    files = tuple(
        FileCell(
            file.path,
            file.new_path,
            file.outcome,
            file.note,
            _ended(file.inner),
            pairs_of(file) if file.outcome is Outcome.SUSPECTED else (),
        )
        for file in result.files
    )
    outcome = result.outcome
    reused = result.settlement is not None and bool(result.settlement.source)
    old = (series.root / result.patch.name).read_bytes()
    if outcome is Outcome.RESOLVED and not reused and result.data == old:
        outcome = Outcome.CLEAN  # the rule generated the same patch as before
    return Cell(outcome, result.note, files)


def _generated_cell(cell: Cell) -> Cell:
    """Return the cell for a regenerated patch, without the notes and diffs of its merge."""
    files = tuple(FileCell(file.path, file.new_path, cell.outcome) for file in cell.files)
    note = "generated again by its rule" if cell.outcome is Outcome.RESOLVED else ""
    return Cell(cell.outcome, note, files)


def _ended(text: str) -> str:
    """Return `text` with a final newline unless it is empty."""
    return text if not text or text.endswith("\n") else text + "\n"
