# SPDX-License-Identifier: Apache-2.0
"""Where the runtime has its programs compiled: the one door to XLA's compiler."""

from __future__ import annotations

from collections.abc import Callable

import jax

from torch_google.tpu.runtime import metrics


def executable(
    name: str, lower: Callable[[], jax.stages.Lowered], *, fingerprint: str
) -> jax.stages.Compiled:
    """Return the executable of a program; `lower` is called where it has to be made.

    `fingerprint` says the same for the same program in every process.
    """
    with metrics.compiling():
        return lower().compile()
