# SPDX-License-Identifier: Apache-2.0
"""The number of property-test examples: fewer by default, all of them with `--config=full`."""

from __future__ import annotations

import os

_FULL = os.environ.get("TORCH_GOOGLE_TESTS") == "full"
_PART = 4  # The default run uses one in this many examples.
_FEWEST = 5


def is_full() -> bool:
    """Return whether this is the full run: `.bazelrc` sets the variable for `--config=full`."""
    return _FULL


def examples(full: int) -> int:
    """Return the number of examples for a property: `full`, or fewer in the default run."""
    return full if _FULL else max(full // _PART, min(full, _FEWEST))
