# SPDX-License-Identifier: Apache-2.0
"""Build an upstream project from two real wheels, a real patch series and generated patches.

Binary files are omitted. The real patches come first, except those that do not apply to the old
wheel or do not merge automatically into the new one. Each generated patch inserts or replaces a
line of a Python file that differs between the wheels, at a place where the three lines on each side
are the same in both wheels.
"""

from __future__ import annotations

import random
import zipfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.importer.made_upstream import Upstream
from tools.importer.apply import ApplyError, apply_diff
from tools.importer.engine import carry, record_base
from tools.importer.series import Patch, Series, load_series
from tools.importer.snapshot import Blob, DictSnapshot

_AROUND = 3


def read_upstream(wheels: tuple[Path, Path], series: Path, *, patches: int) -> Upstream:
    """Return an Upstream whose two releases are the text files of the two wheels.

    It has `patches` patches to the first release.
    """
    old, new = (_texts(wheel) for wheel in wheels)
    now, steps = dict(old), list[tuple[str, dict[str, str]]]()
    for patch in _usable(load_series(series), old, new):
        texts = _applied(patch, now)
        if texts is not None and len(steps) < patches:
            now |= texts
            steps.append((patch.name.removesuffix(".patch"), texts))
    touched = {path for _, texts in steps for path in texts}
    chance = random.Random(1)
    changed = sorted(
        path
        for path, text in old.items()
        if path.endswith(".py") and path not in touched and new.get(path, text) != text
    )
    for path in chance.sample(changed, len(changed)):
        if len(steps) == patches:
            break
        text = _with_a_line(chance, old[path], new[path], len(steps))
        if text is not None:
            steps.append((f"subject-{len(steps):03}", {path: text}))
    if len(steps) < patches:
        raise ValueError(f"{series}: only {len(steps)} patches; ask for fewer with --patches")
    return Upstream((old, new), tuple(steps))


def _texts(wheel: Path) -> dict[str, str]:
    out: dict[str, str] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            try:
                text = archive.read(name).decode("utf-8")
            except UnicodeDecodeError:
                continue
            if not name.endswith("/") and "\0" not in text:
                out[name] = text
    return out


def _usable(series: Series, old: Mapping[str, str], new: Mapping[str, str]) -> list[Patch]:
    """Return the patches of the series that merge automatically into the new release."""
    before, after = (
        DictSnapshot(label, {path: Blob(text.encode()) for path, text in texts.items()})
        for label, texts in (("old", old), ("new", new))
    )
    carried = carry(series, record_base(series, before), after, keep_going=True)
    return [result.patch for result in carried.results if result.data is not None]


def _applied(patch: Patch, now: Mapping[str, str]) -> dict[str, str] | None:
    """Return the patched texts of the files that `patch` changes.

    Return None if the patch does not apply or deletes a file.
    """
    texts: dict[str, str] = {}
    for diff in patch.files:
        blobs = {path: Blob(now[path].encode()) for path in diff.paths if path in now}
        try:
            after = apply_diff(patch.name, diff, blobs)
        except ApplyError:
            return None
        for path, blob in after.items():
            if blob is None:
                return None
            texts[path] = blob.data.decode()
    return texts


def _with_a_line(chance: random.Random, old: str, new: str, number: int) -> str | None:
    """Return `old` with a line inserted or replaced.

    Choose a random place where the surrounding lines are the same in `new`. Return None if there is
    no such place.
    """
    lines = old.splitlines(keepends=True)
    places = range(_AROUND, len(lines) - _AROUND)
    for index in chance.sample(places, len(places)):
        around = "".join(lines[index - _AROUND : index + _AROUND + 1])
        if old.count(around) == new.count(around) == 1:
            lines[index : index + number % 2] = [f"# patch {number}\n"]
            return "".join(lines)
    return None
