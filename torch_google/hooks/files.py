# SPDX-License-Identifier: Apache-2.0
"""Hooks for torch/_seam/files.py, which accept paths with any gfile scheme and write atomically."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The gfile module and function that implement each hook. They are imported on the first call.
_IMPLEMENTATIONS = {
    "checkpoint_storages": ("checkpoint", "storages"),
    "contents": ("answers", "contents"),
    "directory_here": ("answers", "directory_here"),
    "make_directory": ("answers", "make_directory"),
    "open_url": ("hub", "open_url"),
    "reading": ("answers", "reading"),
    "reading_by_name": ("answers", "reading_by_name"),
    "writing": ("answers", "writing"),
    "writing_by_name": ("answers", "writing_by_name"),
}


def install() -> None:
    """Install the hooks."""
    from torch._seam import files

    for hook, (module, name) in _IMPLEMENTATIONS.items():
        getattr(files, hook).install(_lazy(module, name))


def _lazy(module: str, name: str) -> Any:
    function: Any = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal function
        if function is None:
            function = getattr(import_module(f"torch_google.gfile.{module}"), name)
        return function(*args, **kwargs)

    return call
