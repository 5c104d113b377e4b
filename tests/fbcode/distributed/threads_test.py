# SPDX-License-Identifier: Apache-2.0
"""The suites of several ranks as threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fbcode.distributed.threads import TestThreads  # noqa: F401 - pytest finds it here


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    """In the account of a run these are cases of the CPU."""
    record_property("device", "cpu")
