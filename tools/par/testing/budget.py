# SPDX-License-Identifier: Apache-2.0
"""The number of property-test examples: fewer by default, all of them with `--config=full`."""

from __future__ import annotations

import os
from typing import Any

import pytest

_FULL = os.environ.get("TORCH_GOOGLE_TESTS") == "full"
_FEWEST = 5


def is_full() -> bool:
    """Return whether this is the full run: `.bazelrc` sets the variable for `--config=full`."""
    return _FULL


def examples(full: int, part: int = 4) -> int:
    """Return the number of examples for a property: `full`, or one in `part` in the default run."""
    return full if _FULL else max(full // part, min(full, _FEWEST))


def only_full(*values: Any) -> list[Any]:
    """Return parameters of a test that only the full run has."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
