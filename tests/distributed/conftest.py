# SPDX-License-Identifier: Apache-2.0
"""A fixture with ranks that keep running from one test to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.distributed.launcher import CaseRanks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], CaseRanks]]:
    """Return a function that starts `size` ranks, and first ends those of a different size."""
    with ExitStack() as stack:
        started: dict[int, CaseRanks] = {}

        def of_size(size: int) -> CaseRanks:
            if size not in started:
                stack.close()
                started.clear()
                started[size] = stack.enter_context(CaseRanks(size))
            return started[size]

        yield of_size
