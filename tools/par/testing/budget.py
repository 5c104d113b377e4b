# SPDX-License-Identifier: Apache-2.0
"""How thorough a run of the tests is: the default one, or all of it (`--config=full`)."""

from __future__ import annotations

import os

_FULL = os.environ.get("TORCH_GOOGLE_TESTS") == "full"
_PART = 4  # The default run asks this part of the examples.
_FEWEST = 5


def is_full() -> bool:
    """Return whether this is the full run, as `.bazelrc` says for `--config=full`."""
    return _FULL


def examples(full: int) -> int:
    """Return the number of examples of a property: `full` of them, or a part in the default run."""
    return full if _FULL else max(full // _PART, min(full, _FEWEST))
