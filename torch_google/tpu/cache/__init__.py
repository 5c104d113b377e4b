# SPDX-License-Identifier: Apache-2.0
"""A persistent cache of compiled programs. The names in `_LAZY` load JAX on first use."""

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
    "find_entry": "store",
    "store_entry": "store",
    "load_entry": "store",
}

__all__ = [
    "CacheStatistics",
    "Entry",
    "StoredEntry",
    "find_entry",
    "get_compile_cache",
    "load_entry",
    "reset_statistics",
    "set_compile_cache",
    "statistics",
    "store_entry",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
