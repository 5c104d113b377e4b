# SPDX-License-Identifier: Apache-2.0
"""Watch the patches that upstream has merged, to restore a patch that upstream reverts.

The `landed/` directory of a series is itself a series: it contains the landed patches, rebased onto
upstream's tree without their changes. Each import rebases it onto the new tree. A patch that the
new tree still contains stays in `landed/`. A patch that upstream has reverted moves back to the
front of the series.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.importer.engine import (
    Base,
    Carry,
    Landing,
    Outcome,
    base_files,
    carry,
    is_reverted,
    landings,
    read_base,
    record_base,
    take_out,
)
from tools.importer.series import Series, load_series
from tools.importer.session.branches import LANDED
from tools.importer.session.reimport import Source, write_directory
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot


@dataclass(frozen=True)
class Watched:
    """The status of the landed patches on a new tree.

    `returned` maps names to the patches that upstream reverted, and `files` contains the files that
    these patches change, with the patches applied. `landed` holds the patches that upstream still
    contains. `lost` names the patches whose revert can no longer be detected, because upstream has
    changed their lines.
    """

    returned: Mapping[str, bytes]
    files: Mapping[str, Blob | None]
    landed: tuple[Landing, ...]
    lost: tuple[str, ...]

    def tree(self, new: Snapshot) -> Snapshot:
        """Return the new tree with the reverted patches applied."""
        return OverlaySnapshot(new, self.files) if self.files else new


def check_watched(current: Series, base: Base | None, new: Snapshot) -> Watched:
    """Check which of the landed patches the new tree still contains.

    Raises UserError if `landed/` is not a valid patch series.
    """
    directory = current.root / LANDED
    if base is None or not (directory / "series").is_file():
        return Watched({}, {}, (), ())
    series, base = load_series(directory), read_base(directory)
    taken = {patch.name for patch in current.patches}
    results = carry(series, base, new, keep_going=True).results
    names = {result.patch.name for result in results}
    landed = {each.patch.name for each in results if each.outcome is Outcome.LANDED} - taken
    items = {item.patch.name: item for item in landings(series, base, new, results, names)}
    returned: dict[str, bytes] = {}
    files: dict[str, Blob | None] = {}
    for result in results:
        name = result.patch.name
        tree = OverlaySnapshot(new, files)  # a later patch may change an earlier one's lines
        if result.data is None or name in taken or not is_reverted(items[name], tree):
            continue
        returned[name] = result.data
        files |= {file.new_path: file.after for file in result.files}
    still = tuple(item for name, item in items.items() if name in landed)
    lost = names - taken - landed - returned.keys()
    return Watched(returned, files, still, tuple(sorted(lost)))


def landed_files(
    source: Source, new: Snapshot, watched: Watched, result: Carry
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the files to write to `landed/`, keyed by path, and the names of omitted patches.

    A landed patch is omitted if a revert of it could not be detected.
    """
    if source.base is None:
        return {}, ()
    names = {each.patch.name for each in result.results if each.outcome is Outcome.LANDED}
    tree = watched.tree(new)
    items = [
        *watched.landed,
        *landings(source.series, source.base, tree, result.results, names),
    ]
    excluded: set[str] = set()
    while True:
        files, doubtful = _series_of(
            [item for item in items if item.patch.name not in excluded], new
        )
        if not doubtful:
            break
        excluded |= doubtful
    kept = {Path(name).name for name in files}
    return files, tuple(item.patch.name for item in items if item.patch.name not in kept)


def _series_of(items: list[Landing], new: Snapshot) -> tuple[dict[str, bytes], set[str]]:
    """Return the files to write to `landed/` for the patches in `items`, keyed by path.

    Also return the names of the patches that, rebased onto `new`, do not count as landed.
    """
    taken = take_out(items, new)
    if not taken.files:
        return {}, set()
    order = "".join(f"{name}\n" for name in taken.files)
    index = f"# Landed upstream. A patch returns to the series if upstream reverts it.\n{order}"
    files = {"series": index.encode(), **taken.files}
    with tempfile.TemporaryDirectory(prefix="landed-") as scratch:
        write_directory(Path(scratch), files)
        series = load_series(Path(scratch))
        base = record_base(series, taken.tree)
        results = carry(series, base, new, keep_going=True).results
    doubtful = {each.patch.name for each in results if each.outcome is not Outcome.LANDED}
    files |= base_files(base)
    return {f"{LANDED}/{name}": data for name, data in files.items()}, doubtful


def with_returned(files: Mapping[str, bytes], returned: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a patch series directory's files, with the patches in `returned` at the front."""
    if not returned:
        return dict(files)
    lines = files["series"].decode().splitlines(keepends=True)
    first = next(
        (number for number, line in enumerate(lines) if line.split("#", 1)[0].strip()), len(lines)
    )
    if first and not lines[first - 1].endswith("\n"):
        lines[first - 1] += "\n"
    lines[first:first] = [f"{name}\n" for name in returned]
    return {**files, **returned, "series": "".join(lines).encode()}
