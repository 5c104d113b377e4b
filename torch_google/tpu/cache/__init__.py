# SPDX-License-Identifier: Apache-2.0
"""Compiled programs that outlive the process. Importing this loads no JAX; `found` does."""

from typing import Any

from torch_google.tpu.cache.settings import (
    Statistics,
    get_compile_cache,
    reset_statistics,
    set_compile_cache,
    statistics,
)

_LATER = {
    "Entry": "entry",
    "Found": "store",
    "found": "store",
    "remember": "store",
    "remembered": "store",
}

__all__ = [
    "Entry",
    "Found",
    "Statistics",
    "found",
    "get_compile_cache",
    "remember",
    "remembered",
    "reset_statistics",
    "set_compile_cache",
    "statistics",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
