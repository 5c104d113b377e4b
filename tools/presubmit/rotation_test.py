# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from tools.presubmit.rotation import choose
from tools.presubmit.seconds import Cost

_LABELS = [f"//room:test_{number}" for number in range(7)]


@given(
    st.lists(st.integers(0, 100), min_size=7, max_size=7),
    st.integers(-10, 400),
    st.integers(0, 30_000),
)
def test_a_choice_fits_and_begins_at_the_turn(costs: list[int], budget: int, turn: int) -> None:
    table = {
        label: Cost(total=cost, longest=cost, shards=1)
        for label, cost in zip(_LABELS, costs, strict=True)
    }
    chosen = choose(_LABELS, table, budget=budget, turn=turn)
    assert chosen[0] == _LABELS[turn % 7]
    assert len(set(chosen)) == len(chosen) >= 1
    if len(chosen) > 1:
        assert sum(table[label].total for label in chosen) <= budget
    if budget >= sum(costs):
        assert sorted(chosen) == _LABELS


def test_as_many_turns_as_targets_run_them_all() -> None:
    chosen = {label for turn in range(7) for label in choose(_LABELS, {}, budget=0, turn=turn)}
    assert chosen == set(_LABELS)


def test_an_unknown_target_counts_as_five_minutes() -> None:
    assert len(choose(_LABELS, {}, budget=925, turn=0)) == 3
