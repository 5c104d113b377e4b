# SPDX-License-Identifier: Apache-2.0
"""How operators run, by process, thread, `with` block or decorated function.

Strict: asynchronously, each as a program. Debug: each waits, and its error names your line; indices and
divisors are checked, as on the CPU, where the other modes clamp and go on. Fused: they are recorded, and
run as one program when somebody looks at a value, when an optimizer has stepped, or when a loop repeats
itself; such programs are compiled in the background.
"""

from __future__ import annotations

from typing import Literal

from torch_google.tpu import _C
from torch_google.tpu.runtime.scoped_setting import ScopedSetting

ModeName = Literal["strict", "debug", "fused"]


def set_eager_mode(mode: ModeName) -> None:
    """Set the mode of every thread that has not set its own."""
    _C.set_global_mode(_parse(mode))


def set_thread_eager_mode(mode: ModeName | None) -> None:
    """Set the mode of this thread, and of its backward passes; None takes the process's again.

    It holds until it is set again. A block of `eager_mode` that is open gives back, at its end, what
    the thread had at its beginning.
    """
    _C.set_thread_mode(None if mode is None else _parse(mode))


def get_eager_mode() -> str:
    """Return the mode that holds in this thread."""
    own = _C.thread_mode()
    return str((_C.global_mode() if own is None else own).name)


class eager_mode(ScopedSetting):  # noqa: N801 - used as a function: with torch.tpu.eager_mode("debug")
    """Set this thread's mode for a `with` block, or a function; its backward passes take it over."""

    def __init__(self, mode: ModeName) -> None:
        super().__init__(_C.thread_mode, _C.set_thread_mode, _parse(mode))


class cpu_fallback(ScopedSetting):  # noqa: N801 - as eager_mode
    """Let this thread, and its backward passes, run operators without a lowering on the CPU."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(_C.thread_fallback, _C.set_thread_fallback, enabled)


class cache_only(ScopedSetting):  # noqa: N801 - as eager_mode
    """Let this thread, and its backward passes, compile nothing: CacheMissError says what it would."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(_C.thread_cache_only, _C.set_thread_cache_only, enabled)


def set_cache_only(enabled: bool) -> None:
    """Set the same for every thread that is not within `cache_only()`."""
    _C.set_global_cache_only(enabled)


def set_fused_limits(*, operators: int = 4096, memory: int = 4 << 30) -> None:
    """Let a trace of the fused mode end at a number of operators, or of bytes of their results."""
    if operators < 1 or memory < 1:
        raise ValueError(f"tpu: limits of {operators} operators, {memory} bytes. Give at least 1")
    _C.set_limits(operators, memory)


def wait_for_compiles() -> None:
    """Wait until no program of the fused mode is being compiled in the background."""
    if _C.started():
        from torch_google.tpu import fused

        fused.wait_for_compiles()


def _parse(mode: str) -> _C.Mode:
    known = _C.Mode.__members__
    if mode not in known:
        raise ValueError(f"tpu: no eager mode {mode!r}. Use one of: {', '.join(known)}")
    return known[mode]
