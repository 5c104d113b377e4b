# SPDX-License-Identifier: Apache-2.0
"""Copies torch.profiler.record_function ranges to JAX's trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch.autograd.profiler import record_function


@contextmanager
def ranges() -> Iterator[None]:
    """Add every record_function range that begins in this block to JAX's trace.

    torch has no Python hook for ranges, so the methods of `record_function` are wrapped while the
    block runs.
    """
    import jax

    enter, leave = record_function.__enter__, record_function.__exit__
    open_ranges: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __enter__(self: record_function) -> Any:  # noqa: N807 - it replaces that method
        annotation = jax.profiler.TraceAnnotation(self.name)
        annotation.__enter__()
        open_ranges[self] = annotation
        return enter(self)

    def __exit__(self: record_function, *error: Any) -> Any:  # noqa: N807 - it replaces that method
        try:
            return leave(self, *error)
        finally:
            annotation = open_ranges.pop(self, None)
            if annotation is not None:
                annotation.__exit__(*error)

    record_function.__enter__ = __enter__
    record_function.__exit__ = __exit__
    try:
        yield
    finally:
        record_function.__enter__ = enter
        record_function.__exit__ = leave
