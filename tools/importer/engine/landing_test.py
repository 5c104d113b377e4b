# SPDX-License-Identifier: Apache-2.0
"""Test that landed patches can be reverted, and that reverts by upstream are detected."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from tools.importer.engine import (
    Change,
    Outcome,
    carry,
    is_reverted,
    landings,
    record_base,
    render_patch,
    take_out,
)
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Blob, DictSnapshot

_HEADER = b"""Subject: Change it
Owner: us
Reason: build
Upstream: None yet
Extension-point-considered: None
Test: t.py::t"""
LINES = [f"line {number}" for number in range(30)]


def _blob(lines: list[str]) -> Blob:
    return Blob("".join(f"{line}\n" for line in lines).encode())


def _tree(label: str, lines: list[str]) -> DictSnapshot:
    return DictSnapshot(label, {"a.py": _blob(lines), "other.py": Blob(b"other\n")})


def _series(directory: Path, *versions: list[str]) -> Series:
    directory.mkdir()
    names = []
    for number, (old, new) in enumerate(itertools.pairwise(versions)):
        names.append(f"change-{number}.patch")
        change = Change("a.py", "a.py", _blob(old), _blob(new))
        (directory / names[-1]).write_bytes(render_patch(_HEADER, [change]))
    (directory / "series").write_text("".join(f"{name}\n" for name in names))
    return load_series(directory)


def _edited(lines: list[str], source: random.Random) -> list[str]:
    out = list(lines)
    while out == lines:
        index = source.randrange(len(out))
        out[index : index + source.randrange(3)] = [
            f"new {source.randrange(1000)}" for _ in range(source.randrange(3))
        ]
    return out


def test_out_and_in_again_is_upstreams_tree(tmp_path: Path) -> None:
    """Both patches have landed. In half of the cases, upstream also has other changes."""
    counts = [_out_and_in_again(tmp_path / str(seed), seed) for seed in range(60)]
    assert counts.count(2) > 40


def _out_and_in_again(tmp_path: Path, seed: int) -> int:
    """Return how many of two landed patches could be reverted in upstream's tree."""
    tmp_path.mkdir()
    source = random.Random(seed)
    one = _edited(LINES, source)
    two = _edited(one, source)
    upstream = [*two, "upstream's"] if seed % 2 else two
    series = _series(tmp_path / "series", LINES, one, two)
    base, new = record_base(series, _tree("v1", LINES)), _tree("v2", upstream)
    carried = carry(series, base, new)
    names = [each.patch.name for each in carried.results if each.outcome is Outcome.LANDED]
    items = landings(series, base, new, carried.results, names)
    taken = take_out(items, new)
    assert set(taken.files) | set(taken.lost) == set(names)
    if len(taken.files) == 2:
        assert taken.tree.read("a.py") == _blob([*LINES, *upstream[len(two) :]])
    if not taken.files:
        return 0
    watch = tmp_path / "watch"
    watch.mkdir()
    for name, data in taken.files.items():
        (watch / name).write_bytes(data)
    (watch / "series").write_text("".join(f"{name}\n" for name in taken.files))
    landed = load_series(watch)
    recorded = record_base(landed, taken.tree)
    results = carry(landed, recorded, taken.tree).results
    assert all(each.outcome is Outcome.CLEAN for each in results), "after a revert it applies"
    results = carry(landed, recorded, new, keep_going=True).results
    again = landings(landed, recorded, new, results, set(taken.files))
    assert not any(is_reverted(item, new) for item in again)
    assert is_reverted(again[0], taken.tree)
    return len(taken.files)


def test_a_new_file_is_taken_out_whole(tmp_path: Path) -> None:
    series = _series(tmp_path / "series", LINES, LINES[:10])
    created = render_patch(_HEADER, [Change("new.py", "new.py", None, Blob(b"new\n"))])
    (series.root / "change-0.patch").write_bytes(created)
    series = load_series(series.root)
    base = record_base(series, _tree("v1", LINES))
    new = DictSnapshot("v2", {"a.py": _blob(LINES), "new.py": Blob(b"new\n")})
    results = carry(series, base, new).results
    assert results[0].outcome is Outcome.LANDED
    items = landings(series, base, new, results, ["change-0.patch"])
    taken = take_out(items, new)
    assert taken.tree.read("new.py") is None
    assert is_reverted(items[0], taken.tree)
    assert not is_reverted(items[0], new)


def test_a_deletion_cannot_be_taken_out(tmp_path: Path) -> None:
    """The deleted file's text is not recorded, so it cannot be restored."""
    series = _series(tmp_path / "series", LINES, LINES[:10])
    deleted = render_patch(_HEADER, [Change("a.py", "a.py", _blob(LINES), None)])
    (series.root / "change-0.patch").write_bytes(deleted)
    series = load_series(series.root)
    base = record_base(series, _tree("v1", LINES))
    new = DictSnapshot("v2", {"other.py": Blob(b"other\n")})
    results = carry(series, base, new).results
    assert results[0].outcome is Outcome.LANDED
    taken = take_out(landings(series, base, new, results, ["change-0.patch"]), new)
    assert taken.lost == ("change-0.patch",)
