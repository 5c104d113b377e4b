# SPDX-License-Identifier: Apache-2.0
"""Test that the generated upstream is deterministic and, like a real one, requires merges."""

from __future__ import annotations

from pathlib import Path

from benchmarks.importer.engine_run import run_carry, run_drift, run_verify
from benchmarks.importer.made_upstream import make_long_file, make_upstream
from tools.importer.engine import Change, base_files, carry, record_base, render_patch
from tools.importer.series import load_series
from tools.importer.snapshot import Blob, DictSnapshot

_HEADER = (
    b"Subject: Any\nOwner: benchmark\nReason: build\nUpstream: none\n"
    b"Extension-point-considered: none\nTest: none\n"
)


def test_the_same_at_each_making() -> None:
    assert make_upstream(files=60, patches=9) == make_upstream(files=60, patches=9)


def test_patches_of_a_long_file_are_all_carried(tmp_path: Path) -> None:
    upstream = make_long_file(lines=3000, patches=8)
    assert upstream == make_long_file(lines=3000, patches=8)
    (path,) = upstream.releases[0]
    now = upstream.releases[0][path]
    for name, texts in upstream.steps:
        change = Change(path, path, Blob(now.encode()), Blob(texts[path].encode()))
        now = texts[path]
        (tmp_path / f"{name}.patch").write_bytes(render_patch(_HEADER, [change]))
    (tmp_path / "series").write_text("".join(f"{name}.patch\n" for name, _ in upstream.steps))
    old, new = (
        DictSnapshot(label, {path: Blob(release[path].encode())})
        for label, release in zip(("v1", "v2"), upstream.releases, strict=True)
    )
    series = load_series(tmp_path)
    carried = carry(series, record_base(series, old), new)
    assert {result.outcome.value for result in carried.results} == {"offset", "3-way"}


def test_the_programs_that_are_measured(tmp_path: Path) -> None:
    upstream = make_upstream(files=200, patches=20)
    root = tmp_path / "series"
    root.mkdir()
    now = dict(upstream.releases[0])
    for name, texts in upstream.steps:
        changes = [
            Change(path, path, Blob(now[path].encode()), Blob(text.encode()))
            for path, text in texts.items()
        ]
        now |= texts
        (root / f"{name}.patch").write_bytes(render_patch(_HEADER, changes))
    (root / "series").write_text("".join(f"{name}.patch\n" for name, _ in upstream.steps))
    snapshots = [
        DictSnapshot(f"v{number}", {path: Blob(text.encode()) for path, text in release.items()})
        for number, release in enumerate(upstream.releases, start=1)
    ]
    base = record_base(load_series(root), snapshots[0])
    for name, data in base_files(base).items():
        (root / name).write_bytes(data)
    carried = carry(load_series(root), base, snapshots[1])
    outcomes = {result.outcome.value for result in carried.results}
    assert outcomes == {"offset", "3-way"}
    trees = []
    for snapshot in snapshots:
        trees.append(tmp_path / snapshot.label)
        for path in snapshot.paths():
            file = trees[-1] / path
            file.parent.mkdir(parents=True, exist_ok=True)
            blob = snapshot.read(path)
            assert blob is not None
            file.write_bytes(blob.data)
    out = tmp_path / "out"
    out.mkdir()
    assert run_carry(root, trees[1:], out) == {"patches": 20}
    assert (out / "series" / "series").read_bytes() == carried.series_files()["series"]
    assert run_drift(root, trees[1:], out).keys() == {"cpu", "wall"}
    assert run_verify(root, trees[:1], out)["files"] == 200
