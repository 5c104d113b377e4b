# SPDX-License-Identifier: Apache-2.0
"""Executables of lowered programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def compiled(lower: Callable[[], jax.stages.Lowered]) -> Any:
    """Return the executable of a program."""
    return lower().compile()
