# SPDX-License-Identifier: Apache-2.0
"""Limits the number of compiled programs in the process.

A new shape needs new programs, of about 0.3 MiB each. At the limit, the least recently used half of
the programs is evicted, and the freed memory is returned to the system. If an evicted program is
needed again, it is compiled again or loaded from the compile cache.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

from torch_google.tpu import _C

if TYPE_CHECKING:
    import jax

_VARIABLE = "TORCH_TPU_PROGRAM_LIMIT"
_DEFAULT = 1024


class ProgramLimit:
    """Counts live programs, and evicts the least recently used half when they reach a limit."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        # The number of programs that the last eviction could not free because they are still in
        # use.
        self._held = 0
        self._programs: WeakSet[jax.stages.Compiled] = WeakSet()
        self._lock = threading.Lock()

    def get(self) -> int | None:
        """Return the limit, or None if there is no limit."""
        return self._limit

    def set(self, limit: int | None) -> None:
        """Set the limit, or remove it with None. Raises ValueError if it is below 1."""
        if limit is not None and limit < 1:
            raise ValueError(
                f"tpu: program limit {limit}; use a number above 0, or None for no limit"
            )
        self._limit, self._held = limit, 0

    def make_room(self) -> int:
        """Evict programs if the limit is reached. Return the number of evicted programs.

        Also drops the text of lowered programs. JAX keeps this text as long as the traced jaxpr
        exists, and the text takes more memory than the programs themselves.
        """
        _drop_lowered_text()
        limit = self._limit
        if limit is None or len(self._programs) < max(limit, 2 * self._held):
            return 0
        if not self._lock.acquire(blocking=False):
            return 0  # another thread is evicting
        try:
            forgotten = _C.forget_unused()
            self._held = len(self._programs)
            if self._held < limit:
                self._held = 0
            _give_back()
        finally:
            self._lock.release()
        return forgotten

    def add(self, program: jax.stages.Compiled) -> None:
        """Count a program for as long as it is alive."""
        self._programs.add(program)


def _drop_lowered_text() -> None:
    from jax._src import pjit  # imported late, because `torch.tpu` must not load JAX
    from jax._src.interpreters import pxla

    pjit._pjit_lower.cache_clear()
    pxla._cached_lowering_to_hlo.cache_clear()


def _give_back() -> None:
    """Return freed memory to the system, if the C library has glibc's malloc_trim."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _from_environment() -> ProgramLimit:
    text = os.environ.get(_VARIABLE, "")
    if not text:
        return ProgramLimit(_DEFAULT)
    if not text.isdecimal():
        raise ValueError(f"tpu: {_VARIABLE}={text}; use a number of programs, or 0 for no limit")
    return ProgramLimit(int(text) or None)


LIMIT = _from_environment()
"""The limit on compiled programs in this process."""


def set_program_limit(limit: int | None) -> None:
    """Limit this process to about `limit` compiled programs. None means no limit.

    At the limit, the least recently used half is evicted. Raises ValueError if `limit` is below 1.
    """
    LIMIT.set(limit)


def get_program_limit() -> int | None:
    """Return the limit on compiled programs in this process, or None if there is no limit."""
    return LIMIT.get()
