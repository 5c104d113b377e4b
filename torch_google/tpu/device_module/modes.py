# SPDX-License-Identifier: Apache-2.0
"""Eager modes, which can be set for the process, a thread, a `with` block or a function.

In strict mode, each operator is a separate program and runs asynchronously. In debug mode, each
operator waits for its results, and error messages include the user's source line. Debug mode also
checks indices and divisors, as the CPU does; the other modes do not. In fused mode,
operators are recorded, and run as one program when a value is read, when an optimizer has taken a
step, or when a loop repeats. Fused programs are compiled in the background.
"""

from __future__ import annotations

from typing import Literal

from torch_google.tpu import _C
from torch_google.tpu.runtime.scoped_setting import ScopedSetting

ModeName = Literal["strict", "debug", "fused"]


def set_eager_mode(mode: ModeName) -> None:
    """Set the mode of all threads that have not set their own mode."""
    _C.set_global_mode(_parse(mode))


def set_thread_eager_mode(mode: ModeName | None) -> None:
    """Set the mode of this thread and its backward passes. None means the process's mode.

    The mode lasts until the next call. In an `eager_mode` block, it lasts at most until the end of
    the block, which restores the mode from before the block.
    """
    _C.set_thread_mode(None if mode is None else _parse(mode))


def get_eager_mode() -> str:
    """Return the mode that this thread uses."""
    own = _C.thread_mode()
    return str((_C.global_mode() if own is None else own).name)


class eager_mode(ScopedSetting):  # noqa: N801 - used as a function: with torch.tpu.eager_mode("debug")
    """Set the mode of this thread and its backward passes, for a block or a decorated function."""

    def __init__(self, mode: ModeName) -> None:
        super().__init__(_C.thread_mode, _C.set_thread_mode, _parse(mode))


class cpu_fallback(ScopedSetting):  # noqa: N801 - like eager_mode
    """Let operators without a lowering run on the CPU, in this thread and its backward passes."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(_C.thread_fallback, _C.set_thread_fallback, enabled)


class cache_only(ScopedSetting):  # noqa: N801 - like eager_mode
    """Raise CacheMissError if this thread or its backward passes would compile a program."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(_C.thread_cache_only, _C.set_thread_cache_only, enabled)


def set_cache_only(enabled: bool) -> None:
    """Set cache-only mode for all threads that are not in a `cache_only()` block."""
    _C.set_global_cache_only(enabled)


def set_fused_limits(*, operators: int = 4096, memory: int = 4 << 30) -> None:
    """Limit how many operators a fused trace may have, and how many bytes its results may use."""
    if operators < 1 or memory < 1:
        raise ValueError(f"tpu: limits of {operators} operators, {memory} bytes. Give at least 1")
    _C.set_limits(operators, memory)


def wait_for_compiles() -> None:
    """Wait until all background compilations for fused mode are done."""
    if _C.started():
        from torch_google.tpu import fused

        fused.wait_for_compiles()


def _parse(mode: str) -> _C.Mode:
    known = _C.Mode.__members__
    if mode not in known:
        raise ValueError(f"tpu: no eager mode {mode!r}. Use one of: {', '.join(known)}")
    return known[mode]
