# SPDX-License-Identifier: Apache-2.0
"""Measure one operation of the importer's engine, or a lower bound for it, in its own process."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tools.importer.apply import patched_files
from tools.importer.engine import Base, apply_to_snapshot, carry, read_base
from tools.importer.series import Series, load_series
from tools.importer.snapshot import EXECUTABLE, REGULAR, Blob
from tools.importer.tree import hash_entries, tree_entries


class DirectoryTree:
    """A release whose files are in a directory and are read lazily."""

    def __init__(self, root: Path) -> None:
        self.label = root.name
        self.commit: str | None = None
        self.pin: Mapping[str, object] = {"kind": "tree"}
        self._root = root

    def paths(self) -> Collection[str]:
        return [
            os.path.relpath(os.path.join(folder, name), self._root)
            for folder, _, names in os.walk(self._root)
            for name in names
        ]

    def read(self, path: str) -> Blob | None:
        file = self._root / path
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        return Blob(data, EXECUTABLE if os.access(file, os.X_OK) else REGULAR)

    def carries(self, path: str) -> bool:
        return True


def run_carry(series: Path, trees: list[Path], out: Path) -> dict[str, float]:
    """Rebase the patch series onto the first tree; write the new patches and the patched files."""
    loaded, base = load_series(series), read_base(series)
    carried = carry(loaded, base, DirectoryTree(trees[0]))
    if carried.stopped:
        raise SystemExit(f"stopped at {carried.stopped.patch.name}: {carried.stopped.note}")
    for name, data in carried.series_files().items():
        _write(out / "series" / name, data)
    for name, blob in carried.files.items():
        if blob is not None:
            _write(out / "tree" / name, blob.data)
    return {"patches": len(carried.results)}


def run_drift(series: Path, trees: list[Path], out: Path) -> dict[str, float]:
    """Time a trial rebase onto the last tree, after untimed trial rebases onto the others."""
    del out
    loaded, base = load_series(series), read_base(series)
    for tree in trees[:-1]:
        _drift(loaded, base, tree)
    cpu, wall = time.process_time(), time.perf_counter()
    _drift(loaded, base, trees[-1])
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def run_verify(series: Path, trees: list[Path], out: Path) -> dict[str, float]:
    """Do what `verify` does: read and hash the tree; apply the patches without fuzz or offsets."""
    loaded = load_series(series)
    entries = tree_entries(trees[0])
    patched = patched_files(loaded, trees[0])
    (out / "hash").write_text(hash_entries(entries))
    return {"files": len(entries), "patched": len(patched)}


def run_read(series: Path, trees: list[Path], out: Path) -> dict[str, float]:
    """Open and read every file of the tree. This cost is a lower bound for that of `verify`."""
    del series, out
    total = 0
    for folder, _, names in os.walk(trees[0]):
        for name in names:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                total += len(file.read())
    return {"bytes": total}


def run_strict(series: Path, trees: list[Path], out: Path) -> dict[str, float]:
    """Apply the patch series to the tree that it was written for, which is the fastest case."""
    del out
    return {"files": len(apply_to_snapshot(load_series(series), DirectoryTree(trees[0])))}


def _drift(series: Series, base: Base, tree: Path) -> None:
    carry(series, base, DirectoryTree(tree), keep_going=True)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


_RUNS: dict[str, Callable[[Path, list[Path], Path], dict[str, float]]] = {
    "carry": run_carry,
    "drift": run_drift,
    "read": run_read,
    "strict": run_strict,
    "verify": run_verify,
}

if __name__ == "__main__":
    name, where, to, *rest = sys.argv[1:]
    target = Path(to)
    target.mkdir(parents=True, exist_ok=True)
    figures = _RUNS[name](Path(where), [Path(item) for item in rest], target)
    (target / "figures.json").write_text(json.dumps(figures))
