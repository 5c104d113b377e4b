# SPDX-License-Identifier: Apache-2.0
"""A fixture that provides rank processes, which keep running between tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.distributed.launcher import CaseRanks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], CaseRanks]]:
    """Yield a function that returns `size` running ranks.

    If a different number of ranks is running, it stops them and starts new ones.
    """
    with ExitStack() as stack:
        started: dict[int, CaseRanks] = {}

        def of_size(size: int) -> CaseRanks:
            if size not in started:
                stack.close()
                started.clear()
                started[size] = stack.enter_context(CaseRanks(size))
            return started[size]

        yield of_size
