# SPDX-License-Identifier: Apache-2.0
"""Run all test cases for two ranks, in every mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.distributed import registry
from tests.distributed.launcher import CaseRanks


@pytest.mark.parametrize(("case", "mode"), registry.of_ranks(2))
def test_case(case: str, mode: str, ranks: Callable[[int], CaseRanks]) -> None:
    ranks(2).check(case, mode)
