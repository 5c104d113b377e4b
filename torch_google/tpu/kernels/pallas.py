# SPDX-License-Identifier: Apache-2.0
"""Interprets Pallas kernels on CPU platforms."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def interpreted(platform: str) -> AbstractContextManager[Any]:
    """Return a context manager under which Pallas kernels are traced to run on `platform`.

    On a CPU, every kernel is interpreted, regardless of its own options: it becomes an XLA program
    that loops over the grid.
    """
    if platform != "cpu":
        return nullcontext()
    from jax.experimental.pallas import tpu

    # True selects the interpreter of pallas_call(interpret=True). Interpreter parameters would
    # instead emulate a TPU's memories and semaphores, which is meant for debugging and many times
    # slower.
    return tpu.force_tpu_interpret_mode(True)
