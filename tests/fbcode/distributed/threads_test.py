# SPDX-License-Identifier: Apache-2.0
"""Run the suites whose ranks are threads of one process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fbcode.distributed.threads import TestThreads  # noqa: F401 - pytest finds it here


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    """Record for tools/presubmit/account.py that these test cases run on the CPU."""
    record_property("device", "cpu")
