# SPDX-License-Identifier: Apache-2.0
"""The platforms, and the one that programs are traced for, if it is not the running one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The preferred one is first. These are JAX's names for starting a platform, and for lowering.
PLATFORMS = ("tpu", "cuda", "cpu")

_TARGET: ContextVar[str | None] = ContextVar("TARGET", default=None)


def requested() -> str | None:
    """Return the platform that `tracing_for` set, or None for the running one."""
    return _TARGET.get()


@contextmanager
def tracing_for(platform: str | None) -> Iterator[None]:
    """Trace programs for a platform (tpu, cuda or cpu), which need not run; None changes nothing.

    The caller must lower them with `lowering_platforms=(platform,)`. Applies only to this thread.
    """
    token = _TARGET.set(platform or _TARGET.get())
    try:
        yield
    finally:
        _TARGET.reset(token)
