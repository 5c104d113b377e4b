# SPDX-License-Identifier: Apache-2.0
"""Set how many examples property tests run: a tenth by default, all with `--config=full`."""

from __future__ import annotations

import os
from typing import Any

import pytest

_FULL = os.environ.get("TORCH_GOOGLE_TESTS") == "full"
_FEWEST = 5


def is_full() -> bool:
    """Return whether the tests run with `--config=full`, which sets TORCH_GOOGLE_TESTS."""
    return _FULL


def examples(full: int, part: int = 10) -> int:
    """Return how many examples a property test runs: `full`, or a fraction of it by default."""
    return full if _FULL else max(full // part, min(full, _FEWEST))


def only_full(*values: Any) -> list[Any]:
    """Return pytest parameters for cases that run only with `--config=full`."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
