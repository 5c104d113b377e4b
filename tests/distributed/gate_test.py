# SPDX-License-Identifier: Apache-2.0
"""Run one or two test cases per feature with two ranks. The full run covers all cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.distributed import registry
from tests.distributed.launcher import CaseFailed, CaseRanks

_CASES = [
    ("ddp_gpt", "strict"),
    ("ddp_gpt", "fused"),
    ("hook_powersgd", "strict"),
    ("fsdp1_full_shard", "strict"),
    ("fsdp2_reshard_after_forward", "strict"),
    ("dtensor_all_pairs", "strict"),
    ("tp_gpt", "strict"),
    ("pipeline_1f1b", "strict"),
    ("dcp_gfile", "strict"),
    ("late_rank_all_reduce", "fused"),
]


@pytest.mark.parametrize(("case", "mode"), _CASES)
def test_case(case: str, mode: str, ranks: Callable[[int], CaseRanks]) -> None:
    ranks(2).check(case, mode)


def test_a_failure_has_the_errors_of_all_ranks_and_the_next_case_runs(
    ranks: Callable[[int], CaseRanks],
) -> None:
    with pytest.raises(
        CaseFailed, match=r"(?s)dcp_load_in_two in cpu, 2 ranks.*rank 0: .*rank 1: "
    ):
        ranks(2).check("dcp_load_in_two", "cpu")
    ranks(2).check("ddp_mlp", "cpu")


def test_each_feature_has_cases() -> None:
    assert {case.feature for case in registry.all_cases().values()} == set(registry.FEATURES)
