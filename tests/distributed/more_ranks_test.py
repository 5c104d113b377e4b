# SPDX-License-Identifier: Apache-2.0
"""Run all cases for four and eight ranks, and load a checkpoint on fewer ranks than saved it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from tests.distributed import registry
from tests.distributed.launcher import CaseRanks


@pytest.mark.parametrize(("case", "mode"), registry.of_ranks(4))
def test_four_ranks(case: str, mode: str, ranks: Callable[[int], CaseRanks]) -> None:
    ranks(4).check(case, mode)


def test_two_ranks_load_what_four_saved(
    ranks: Callable[[int], CaseRanks], tmp_path: pathlib.Path
) -> None:
    ranks(4).check("dcp_save_in_four", "strict", tmp_path)
    ranks(2).check("dcp_load_in_two", "strict", tmp_path)


@pytest.mark.parametrize(("case", "mode"), registry.of_ranks(8))
def test_eight_ranks(case: str, mode: str, ranks: Callable[[int], CaseRanks]) -> None:
    ranks(8).check(case, mode)
