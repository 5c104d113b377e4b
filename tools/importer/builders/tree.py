# SPDX-License-Identifier: Apache-2.0
"""The builder for projects without compiled files: upstream's files with our patches applied.

It supports every origin. third_party/imported/unpack.py creates the same tree in the build.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.importer.apply import ApplyError
from tools.importer.engine import apply_to_snapshot, record_base
from tools.importer.errors import UserError
from tools.importer.origins import open_pin
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import Series, SeriesError, load_series
from tools.importer.snapshot import OverlaySnapshot, Snapshot
from tools.importer.tree import Entry, hash_entries
from tools.importer.tree_pin import TreePin, pin_bytes, read_tree_pin
from tools.importer.verify import Difference, Kind, Rebuilt


class TreeBuilder:
    """The builder that applies our patches to upstream's files. Its pin is a TreePin."""

    def origin_pin(self, project: Project) -> Mapping[str, object]:
        return read_tree_pin(project.pin).origin

    def after_import(
        self, project: Project, new: Snapshot, files: Mapping[str, bytes], report: Report
    ) -> dict[str, object] | None:
        with (
            tempfile.TemporaryDirectory(prefix="series-") as scratch,
            report.progress(f"Hashing the patched tree of {new.label}"),
        ):
            for name, data in files.items():
                (Path(scratch) / name).write_bytes(data)
            entries = patched_entries(load_series(Path(scratch)), new)
        return pin_of(project, new, hash_entries(entries)).as_json()

    def after_edit(
        self, project: Project, snapshot: Snapshot, series: Series, wheel: Callable[[], Path]
    ) -> tuple[bytes, str]:
        tree_hash = hash_entries(patched_entries(series, snapshot))
        pin = {**read_tree_pin(project.pin).as_json(), "tree_hash": tree_hash}
        return pin_bytes(pin), tree_hash

    def rebuild(self, project: Project, wheel: Path | None, report: Report) -> Rebuilt:
        if wheel is not None:
            raise UserError(
                f"--wheel {wheel}: the builder of {project.name} is '{project.builder}', which"
                " fetches by the pin. Leave it out"
            )
        pin = read_tree_pin(project.pin)
        directory = project.series_of(pin.tag)
        snapshot = open_pin(project, report, pin.origin)
        try:
            series = load_series(directory)
            with report.progress("Patching and hashing"):
                entries = patched_entries(series, snapshot)
        except (ApplyError, SeriesError) as error:
            fault = Difference("series", Kind.DAMAGED, directory.name, str(error))
            return Rebuilt(None, None, {}, (fault,), pin.tag)
        tree_hash = hash_entries(entries)
        differences = []
        if tree_hash != pin.tree_hash:
            note = f"tree_hash is {pin.tree_hash}, the rebuilt tree has {tree_hash}"
            differences.append(Difference("pin", Kind.CHANGED, str(project.pin), note))
        return Rebuilt(tree_hash, series.digest, entries, tuple(differences), pin.tag)

    def is_generated(self, project: Project, path: str) -> bool:
        return path.partition("/")[0].endswith(".dist-info")


def patched_entries(series: Series, snapshot: Snapshot) -> dict[str, Entry]:
    """Return the files of `snapshot` with the patches applied.

    Raises ApplyError if a patch does not apply.
    """
    absent = record_base(series, snapshot).absent
    tree = OverlaySnapshot(snapshot, apply_to_snapshot(series, snapshot, absent=absent))
    entries: dict[str, Entry] = {}
    for path in tree.paths():
        blob = tree.read(path)
        if blob is not None:
            entries[path] = Entry(blob.mode, hashlib.sha256(blob.data).hexdigest())
    return entries


def pin_of(project: Project, new: Snapshot, tree_hash: str) -> TreePin:
    """Return the pin of a new release. Its `previous` records the currently pinned release."""
    previous = None
    if project.pin.exists():
        old = read_tree_pin(project.pin)
        # Importing the same release again must not overwrite `previous`.
        previous = old.previous
        if old.tag != new.label:
            previous = {"tag": old.tag, "origin": dict(old.origin), "tree_hash": old.tree_hash}
    tag, ref = new.pin.get("tag"), new.pin.get("ref")
    version = project.version_of(tag) if isinstance(tag, str) else None
    return TreePin(
        new.label,
        version,
        str(ref) if ref else (str(tag) if tag else None),
        new.commit,
        dict(new.pin),
        tree_hash,
        previous,
    )
