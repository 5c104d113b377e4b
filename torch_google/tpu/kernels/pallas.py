# SPDX-License-Identifier: Apache-2.0
"""Pallas where there is no accelerator: its kernels are interpreted."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def interpreted(platform: str) -> AbstractContextManager[Any]:
    """Return a context in which kernels of Pallas that are traced will run on such a platform.

    On a CPU they are interpreted, as XLA programs over the grid, whatever they say themselves.
    """
    if platform != "cpu":
        return nullcontext()
    from jax.experimental.pallas import tpu

    # True is the interpreter of pallas_call(interpret=True); parameters would be the emulation of a
    # TPU's memories and semaphores, which is for debugging and many times slower.
    return tpu.force_tpu_interpret_mode(True)
