# SPDX-License-Identifier: Apache-2.0
"""Settings that apply in a `with` block, or during the calls of a decorated function."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from torch.utils._contextlib import context_decorator

_F = TypeVar("_F", bound=Callable[..., Any])


class ScopedSetting:
    """A context manager or decorator that overrides a setting in this thread.

    An object can be entered repeatedly, recursively and by several threads. As a decorator, it
    applies during each call of a function or, for a generator, while the generator runs, like
    torch.no_grad().
    """

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None], value: Any) -> None:
        self._read = read
        self._write = write
        self._value = value
        self._entered = _SavedValues()

    def __enter__(self) -> None:
        before = self._read()
        self._write(self._value)
        self._entered.before.append(before)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write(self._entered.before.pop())

    def __call__(self, function: _F) -> _F:
        """Return a function that runs `function` with the setting overridden.

        Raises TypeError for a class, and for a coroutine function: while the coroutine waits, the
        thread's other tasks would run with the setting overridden as well.
        """
        name = f"torch.tpu.{type(self).__name__}"
        named = getattr(function, "__qualname__", repr(function))
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{name}: {named} is asynchronous, and other work would run in the block while it "
                "waits. Write a `with` block around code that does not await"
            )
        if inspect.isclass(function):
            raise TypeError(f"{name}: {named} is a class. Decorate its methods, one by one")
        decorated: _F = context_decorator(functools.partial(_as_it_is, self), function)
        return decorated


class _SavedValues(threading.local):
    """The previous values of the setting, one for each `with` block that this thread is in."""

    def __init__(self) -> None:
        self.before: list[Any] = []


def _as_it_is(block: ScopedSetting) -> ScopedSetting:
    return block
