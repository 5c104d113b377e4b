# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.presubmit.rotation import choose, main
from tools.presubmit.seconds import Cost

_LABELS = [f"//room:test_{number}" for number in range(7)]


@given(
    st.lists(st.integers(0, 2000), min_size=7, max_size=7),
    st.integers(300, 8000),
    st.integers(0, 30_000),
)
def test_targets_fit_and_only_long_ones_are_skipped(
    totals: list[int], budget: int, turn: int
) -> None:
    table = _table(totals)
    chosen, skipped = choose(_LABELS, table, budget=budget, turn=turn)
    turned = _LABELS[turn % 7 :] + _LABELS[: turn % 7]
    seen = [label for label in turned if label in chosen or label in skipped]
    assert seen == turned[: len(seen)]
    assert len(seen) == len(chosen) + len(skipped)
    assert all(table[label].total > budget for label in skipped)
    used = sum(table[label].total for label in chosen)
    assert used <= budget
    if len(seen) < 7:
        assert used + table[turned[len(seen)]].total > budget


@given(st.lists(st.integers(0, 2000), min_size=7, max_size=7), st.integers(300, 2000))
def test_a_full_cycle_runs_every_target_that_fits(totals: list[int], budget: int) -> None:
    table = _table(totals)
    turns = [choose(_LABELS, table, budget=budget, turn=turn)[0] for turn in range(7)]
    fitting = {label for label in _LABELS if table[label].total <= budget}
    assert {label for chosen in turns for label in chosen} == fitting


def test_an_unknown_target_counts_as_five_minutes() -> None:
    assert choose(_LABELS, {}, budget=925, turn=0) == (_LABELS[:3], [])


def test_a_skipped_target_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = _table([5000, 10, 10, 10, 10, 10, 10])
    monkeypatch.setattr("tools.presubmit.seconds.read", lambda: {"default": {}, "full": table})
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(_LABELS)))
    assert main(["--turn=0", "--seconds=-10", "--cores=2"]) == 0  # a late run has a minimum
    printed = capsys.readouterr()
    assert printed.out.split() == _LABELS[1:]
    assert "bazelw test --config=full //room:test_0" in printed.err
    assert "which takes 5000 CPU s; 300 are left" in printed.err


def _table(totals: list[int]) -> dict[str, Cost]:
    return {
        label: Cost(total=total, longest=total, shards=1)
        for label, total in zip(_LABELS, totals, strict=True)
    }
