# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.models import page, row
from benchmarks.models.rows_testing import ROWS
from benchmarks.models.zoo import MODELS

_ROOM = Path(__file__).parent


def test_the_published_page_is_up_to_date() -> None:
    changed = page.outdated(page.newest(_ROOM.parent / "results"), _ROOM)
    assert not changed, f"{', '.join(changed)} differ from the results. Run {page.COMMAND}"


def test_each_published_row_belongs_to_a_model() -> None:
    rows = row.rows_of(page.newest(_ROOM.parent / "results"))
    assert {each.model for each in rows} <= set(MODELS)


def test_the_page_has_each_row_and_each_cause(tmp_path: Path) -> None:
    row.write(tmp_path / "models-2026-01-01.json", ROWS)
    files = page.files(page.newest(tmp_path))
    assert set(files) == {"TABLE.md", "means.svg", "infer.svg", "train.svg"}
    text = files["TABLE.md"]
    assert "| inference | passed, of 2 |  |  | 1.00 (2) | 0.25 (1) |  |" in text
    assert "| inference | the 1 that passed everywhere |  |  | 0.50 | 0.25 |  |" in text
    assert "| torch/b | 10.0 | not run | not run | 2.00 | failed | not run |" in text
    assert "| torch/b:infer:fused | failed | `ValueError: a\\|b` |" in text
    assert "| torch/a:train:fused | 3.00 | 30.0 | 30.0 | 3.0 | 4.0 | 1.5 |" in text


def test_without_a_run_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(results.ResultsError, match=r"no models-\*.json .* Publish a run"):
        page.newest(tmp_path)
