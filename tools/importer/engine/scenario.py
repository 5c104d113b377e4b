# SPDX-License-Identifier: Apache-2.0
"""Test support: an upstream tree with a patch series, and a tree to rebase the series onto."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.importer.engine.base import Base, base_files, read_base, record_base
from tools.importer.engine.carry import Carry, carry
from tools.importer.engine.outcome import Outcome
from tools.importer.engine.render import Change, render_patch
from tools.importer.engine.strict import apply_to_snapshot
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Blob, DictSnapshot

Files = dict[str, Blob]
Texts = Mapping[str, str | bytes | Blob | None]


@dataclass(frozen=True)
class Scenario:
    """A patch series with its recorded base, as read from disk. It applies to the tree `old`."""

    series: Series
    base: Base
    old: Files

    def to(self, new: Mapping[str, Blob], *, keep_going: bool = False) -> Carry:
        return carry(self.series, self.base, DictSnapshot("new", new), keep_going=keep_going)

    def outcomes(self, new: Texts) -> dict[str, Outcome]:
        """Rebase the series onto `old` overlaid with `new`; return the outcome of each patch."""
        carried = self.to(over(self.old, new), keep_going=True)
        return {result.patch.name[:-6]: result.outcome for result in carried.results}


def over(files: Mapping[str, Blob], texts: Texts) -> Files:
    """Return `files` overlaid with `texts`; None removes a file."""
    out = dict(files)
    for path, text in texts.items():
        if text is None:
            del out[path]
        elif isinstance(text, Blob):
            out[path] = text
        else:
            out[path] = Blob(text.encode() if isinstance(text, str) else text)
    return out


def header(subject: str) -> bytes:
    return (
        f"Subject: {subject}\nOwner: packaging\nReason: build\nUpstream: none\n"
        "Extension-point-considered: none\nTest: a_test.py::test_a"
    ).encode()


def make_scenario(
    root: Path,
    old: Texts,
    steps: Mapping[str, Texts] | Sequence[tuple[str, Texts]],
    *,
    context: int = 3,
    moves: Mapping[str, str] | None = None,
) -> Scenario:
    """Write a patch series to `root`: one patch per step, each on top of the previous ones.

    `moves` maps old to new paths. If a step removes an old path and adds its new one, the patch
    renames the file.
    """
    files = over({}, old)
    now = files
    root.mkdir(parents=True, exist_ok=True)
    items = steps.items() if isinstance(steps, Mapping) else steps
    moves = moves or {}
    for name, texts in items:
        then = over(now, texts)
        moved = {a: b for a, b in moves.items() if a in now and a not in then and b in then}
        changes = [Change(a, b, now[a], then[b]) for a, b in sorted(moved.items())] + [
            Change(path, path, now.get(path), then.get(path))
            for path in sorted({*now, *then} - {*moved, *moved.values()})
        ]
        (root / f"{name}.patch").write_bytes(render_patch(header(name), changes, context=context))
        now = then
    (root / "series").write_text("".join(f"{name}.patch\n" for name, _ in items))
    return on_disk(root, files)


def on_disk(root: Path, files: Files, label: str = "old") -> Scenario:
    """Record `files` as the base of the patch series in `root`.

    Return a scenario with the series and its base as read from disk.
    """
    series = load_series(root)
    for name, data in base_files(record_base(series, DictSnapshot(label, files))).items():
        (root / name).write_bytes(data)
    return Scenario(series, read_base(root), files)


def next_scenario(root: Path, carried: Carry, new: Files) -> Scenario:
    """Write a rebased patch series to `root`, as an import would."""
    root.mkdir(parents=True, exist_ok=True)
    for name, data in carried.series_files().items():
        (root / name).write_bytes(data)
    return on_disk(root, new, "new")


def patched(scenario: Scenario) -> Files:
    """Return the old tree with all patches applied."""
    changed = apply_to_snapshot(scenario.series, DictSnapshot("old", scenario.old))
    return {path: blob for path, blob in {**scenario.old, **changed}.items() if blob is not None}


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory for one example, because fixtures are shared by all examples."""
    return tempfile.TemporaryDirectory(prefix="scenario-")
