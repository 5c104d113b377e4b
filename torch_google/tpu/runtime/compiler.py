# SPDX-License-Identifier: Apache-2.0
"""Where the runtime has its programs compiled: the one door to XLA's compiler."""

from __future__ import annotations

from collections.abc import Callable

import jax

from torch_google.tpu import _C
from torch_google.tpu.runtime import metrics
from torch_google.tpu.runtime.misses import CacheMissError


def executable(
    name: str, lower: Callable[[], jax.stages.Lowered], *, fingerprint: str
) -> jax.stages.Compiled:
    """Return the executable of a program; `lower` is called where it has to be made.

    `fingerprint` says the same for the same program in every process. Raises CacheMissError where a
    program has to be made and the thread may not.
    """

    def allowed() -> jax.stages.Lowered:
        check_allowed(name, fingerprint)
        return lower()

    with metrics.compiling():
        return allowed().compile()


def check_allowed(name: str, fingerprint: str) -> None:
    """Raise CacheMissError in cache-only mode."""
    if _C.cache_only():
        raise CacheMissError(name, fingerprint)
