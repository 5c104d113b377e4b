# SPDX-License-Identifier: Apache-2.0
"""After the last test, stops the server that forks the ranks, so that its CPU time is counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from torch_google.tpu.testing import ranks


@pytest.fixture(scope="session", autouse=True)
def _server() -> Iterator[None]:
    yield
    ranks.end_server()
