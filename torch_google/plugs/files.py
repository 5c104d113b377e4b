# SPDX-License-Identifier: Apache-2.0
"""torch/_seam/files.py: every scheme of gfile, and files that appear whole."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Hook -> where the answer is, loaded when torch first asks.
_ANSWERS = {
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


def plug() -> None:
    """Answer torch's questions about files."""
    from torch._seam import files

    for hook, (module, name) in _ANSWERS.items():
        getattr(files, hook).plug(_lazy(module, name))


def _lazy(module: str, name: str) -> Any:
    answer: Any = None

    def ask(*args: Any, **kwargs: Any) -> Any:
        nonlocal answer
        if answer is None:
            answer = getattr(import_module(f"torch_google.gfile.{module}"), name)
        return answer(*args, **kwargs)

    return ask
