# SPDX-License-Identifier: Apache-2.0
"""Programs with collectives are lowered but not run here; collectives/compile_test runs them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from torch_google.tpu.lowerings import collectives
from torch_google.tpu.lowerings.call_order import CallOrder, call_order


def _program(x: Any) -> Any:
    order = CallOrder()
    with call_order(order):
        first = collectives.all_reduce(x, "sum", "0")
        collectives.all_reduce(x, "sum", "0")
        second = collectives.all_gather(x[:2], 2, "another")
    return first, second, order.token


def test_each_call_takes_the_token_of_the_call_before() -> None:
    lowered = jax.jit(_program).trace(jnp.ones(4)).lower(lowering_platforms=("cpu",))
    calls = [line.strip() for line in lowered.as_text().splitlines() if "custom_call" in line]
    assert len(calls) == 3
    assert all("has_side_effect = true" in line for line in calls)
    for before, after in pairwise(calls):
        name = before.partition(":")[0]
        assert f"{name}#1)" in after
    assert '"another"' in calls[2]


def test_other_platforms_are_refused() -> None:
    traced = jax.jit(_program).trace(jnp.ones(4))
    with pytest.raises(
        NotImplementedError, match="all_reduce inside a program runs on the platform cpu, but"
    ):
        traced.lower(lowering_platforms=("tpu",))


def test_a_collective_outside_of_a_graph_is_refused() -> None:
    with (
        call_order(CallOrder()),
        call_order(None),
        pytest.raises(NotImplementedError, match="not in a branch, a loop or an exported program"),
    ):
        collectives.all_reduce(jnp.ones(4), "sum", "0")
