# SPDX-License-Identifier: Apache-2.0
"""A cache of compiled programs that outlive the process. Only `found` loads JAX."""

from typing import Any

from torch_google.tpu.cache.settings import (
    CacheStatistics,
    get_compile_cache,
    reset_statistics,
    set_compile_cache,
    statistics,
)

_LAZY = {
    "Entry": "entry",
    "StoredEntry": "store",
    "found": "store",
    "remember": "store",
    "remembered": "store",
}

__all__ = [
    "CacheStatistics",
    "Entry",
    "StoredEntry",
    "found",
    "get_compile_cache",
    "remember",
    "remembered",
    "reset_statistics",
    "set_compile_cache",
    "statistics",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
