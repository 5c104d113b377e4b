# SPDX-License-Identifier: Apache-2.0
"""CaseRanks that all tests of a file share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.distributed.launcher import CaseRanks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], CaseRanks]]:
    """Return a function of the number of ranks. Only the last number's processes are kept."""
    with ExitStack() as stack:
        started: dict[int, CaseRanks] = {}

        def of_size(size: int) -> CaseRanks:
            if size not in started:
                stack.close()
                started.clear()
                started[size] = stack.enter_context(CaseRanks(size))
            return started[size]

        yield of_size
