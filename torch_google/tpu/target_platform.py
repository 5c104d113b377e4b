# SPDX-License-Identifier: Apache-2.0
"""Names of the platforms, and tracing for a platform other than the current one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The platforms in order of preference. JAX uses the same names for its backends and for lowering.
PLATFORMS = ("tpu", "cuda", "cpu")

_TARGET: ContextVar[str | None] = ContextVar("TARGET", default=None)


def requested() -> str | None:
    """Return the platform that `tracing_for` set for this thread, or None if it set none."""
    return _TARGET.get()


@contextmanager
def tracing_for(platform: str | None) -> Iterator[None]:
    """Trace programs for a platform (tpu, cuda or cpu), even if it is not the current one.

    The caller must lower the programs with `lowering_platforms=(platform,)`. The choice applies
    only to this thread. None leaves the current choice unchanged.
    """
    token = _TARGET.set(platform or _TARGET.get())
    try:
        yield
    finally:
        _TARGET.reset(token)
