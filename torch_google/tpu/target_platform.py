# SPDX-License-Identifier: Apache-2.0
"""The names of the platforms, and tracing for a platform that is not the running one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# In order of preference. JAX uses the same names to start a platform and to lower programs for it.
PLATFORMS = ("tpu", "cuda", "cpu")

_TARGET: ContextVar[str | None] = ContextVar("TARGET", default=None)


def requested() -> str | None:
    """Return the platform that `tracing_for` set, or None for the running one."""
    return _TARGET.get()


@contextmanager
def tracing_for(platform: str | None) -> Iterator[None]:
    """Trace programs for a platform (tpu, cuda or cpu), even if it is not running.

    The caller must lower the programs with `lowering_platforms=(platform,)`. The choice applies
    only to this thread. None changes nothing.
    """
    token = _TARGET.set(platform or _TARGET.get())
    try:
        yield
    finally:
        _TARGET.reset(token)
