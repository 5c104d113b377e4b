# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.models import row
from benchmarks.models.model import Key
from benchmarks.models.rows_testing import ROWS


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert row.read(file) == []
    row.write(file, reversed(ROWS))
    assert sorted(map(str, row.read(file))) == sorted(map(str, ROWS))
    assert [each.key for each in row.read(file)] == [
        Key(*key.split(":"))
        for key in (
            "torch/a:infer:torch",
            "torch/a:infer:strict",
            "torch/a:infer:fused",
            "torch/b:infer:torch",
            "torch/b:infer:strict",
            "torch/b:infer:fused",
            "torch/a:train:fused",
        )
    ]


def test_a_mean_says_how_many_models_it_covers() -> None:
    strict, fused, train = row.figures(ROWS)
    assert (strict.subject, strict.number, strict.total, strict.note) == ("strict", 2, 2, None)
    assert strict.cpu_ratio == pytest.approx(1.0)  # Of 0.5 and 2.
    assert (fused.number, fused.total, fused.note) == (1, 2, "1 failed")
    assert fused.cpu_ratio == pytest.approx(0.25)
    assert train.case == "Geometric mean over models, training"


def test_common_models_have_a_ratio_in_every_program() -> None:
    assert row.common(ROWS, "infer") == {"torch": [1.0], "strict": [0.5], "fused": [0.25]}
