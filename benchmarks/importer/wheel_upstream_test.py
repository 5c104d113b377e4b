# SPDX-License-Identifier: Apache-2.0
"""Test that the patches apply to the first wheel and merge automatically into the second."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.importer.wheel_upstream import read_upstream
from tools.importer.engine import Change, carry, record_base, render_patch
from tools.importer.series import load_series
from tools.importer.snapshot import Blob, DictSnapshot

_HEADER = (
    b"Subject: x\nOwner: b\nReason: build\nUpstream: n\nExtension-point-considered: n\nTest: t"
)
_LINES = [f"line {number}\n" for number in range(40)]


def _wheel(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("lib.so", b"\xff\0")
    return path


@pytest.fixture(name="wheels")
def _wheels(tmp_path: Path) -> tuple[Path, Path]:
    text = "".join(_LINES)
    new = text.replace("line 20\n", "line twenty\n")
    old = {f"p/m{number}.py": text for number in range(6)}
    return (
        _wheel(tmp_path / "old.whl", {**old, "p/taken.py": text}),
        _wheel(tmp_path / "new.whl", {**dict.fromkeys(old, new), "p/taken.py": new}),
    )


def _write_series(root: Path) -> Path:
    root.mkdir()
    text = "".join(_LINES)
    for name, path, line in (("good", "p/m0.py", 3), ("contradicts", "p/taken.py", 20)):
        after = text.replace(f"line {line}\n", "ours\n")
        change = Change(path, path, Blob(text.encode()), Blob(after.encode()))
        (root / f"{name}.patch").write_bytes(render_patch(_HEADER, [change]))
    (root / "series").write_text("good.patch\ncontradicts.patch\n")
    return root


def test_every_patch_needs_no_decision(tmp_path: Path, wheels: tuple[Path, Path]) -> None:
    upstream = read_upstream(wheels, _write_series(tmp_path / "series"), patches=5)
    assert [name for name, _ in upstream.steps][:2] == ["good", "subject-001"]
    assert len(upstream.steps) == 5
    assert "lib.so" not in upstream.releases[0]
    old, new = (
        DictSnapshot(label, {path: Blob(text.encode()) for path, text in files.items()})
        for label, files in zip(("old", "new"), upstream.releases, strict=True)
    )
    root, now = tmp_path / "all", dict(upstream.releases[0])
    root.mkdir()
    for name, texts in upstream.steps:
        changes = [
            Change(path, path, Blob(now[path].encode()), Blob(text.encode()))
            for path, text in texts.items()
        ]
        (root / f"{name}.patch").write_bytes(render_patch(_HEADER, changes))
        now |= texts
    (root / "series").write_text("".join(f"{name}.patch\n" for name, _ in upstream.steps))
    series = load_series(root)
    carried = carry(series, record_base(series, old), new)
    assert len(carried.results) == 5
    assert carried.stopped is None


def test_too_many_patches_are_an_error(tmp_path: Path, wheels: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="only 7 patches"):
        read_upstream(wheels, _write_series(tmp_path / "series"), patches=50)
