# SPDX-License-Identifier: Apache-2.0
"""Interprets Pallas kernels if there is no accelerator."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def interpreted(platform: str) -> AbstractContextManager[Any]:
    """Return a context in which to trace Pallas kernels, so that they can run on this platform.

    On a CPU, kernels are interpreted, as XLA programs that loop over the grid, whatever their
    options.
    """
    if platform != "cpu":
        return nullcontext()
    from jax.experimental.pallas import tpu

    # True selects the interpreter of pallas_call(interpret=True). Interpreter parameters would
    # emulate a TPU's memories and semaphores, which is meant for debugging and many times slower.
    return tpu.force_tpu_interpret_mode(True)
