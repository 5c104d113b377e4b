# SPDX-License-Identifier: Apache-2.0
"""Test that `check_base` reports each file whose recorded hash or mode differs from upstream."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tools.importer.engine import Base, BaseFile, Change, record_base, render_patch
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Blob, DictSnapshot
from tools.importer.verify.recorded_base import check_base
from tools.importer.verify.sample_wheel import PATCH

_UPSTREAM = {name: Blob(f"{name}\n".encode()) for name in ("a", "b", "c", "other")}
_SNAPSHOT = DictSnapshot("v1", _UPSTREAM)


@pytest.fixture(name="series")
def _series(tmp_path: Path) -> Series:
    header = PATCH.split("\n\n")[0].encode()
    changes = [Change(name, name, _UPSTREAM[name], Blob(b"changed\n")) for name in "abc"]
    (tmp_path / "change.patch").write_bytes(render_patch(header, changes))
    (tmp_path / "series").write_text("change.patch\n")
    return load_series(tmp_path)


def _found(base: Base, series: Series) -> list[tuple[str, str]]:
    return [(each.kind.value, each.path) for each in check_base(base, series, _SNAPSHOT)]


def test_each_touched_file_is_compared(series: Series) -> None:
    base = record_base(series, _SNAPSHOT)
    assert _found(base, series) == []
    files: dict[str, BaseFile] = {
        "a": dataclasses.replace(base.files["a"], oid="0" * 40),
        "b": dataclasses.replace(base.files["b"], mode="100755"),
        "other": base.files["a"],
    }
    wrong = dataclasses.replace(base, files=files, absent=frozenset({"d"}))
    assert _found(wrong, series) == [
        ("changed", "a"),
        ("mode", "b"),
        ("missing", "c"),
        ("extra", "other"),
        ("extra", "d"),
    ]


def test_a_series_that_does_not_fit_is_said(series: Series) -> None:
    base = record_base(series, _SNAPSHOT)
    moved = DictSnapshot("v1", {**_UPSTREAM, "b": Blob(b"moved\n")})
    (difference,) = check_base(base, series, moved)
    assert "change.patch: b: hunk 1" in difference.note
