# SPDX-License-Identifier: Apache-2.0
"""Ranks that all tests of a file share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.distributed.launcher import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], Ranks]]:
    """Return a function of the number of ranks. Only the last number's processes are kept."""
    with ExitStack() as stack:
        started: dict[int, Ranks] = {}

        def of_size(size: int) -> Ranks:
            if size not in started:
                stack.close()
                started.clear()
                started[size] = stack.enter_context(Ranks(size))
            return started[size]

        yield of_size
