# SPDX-License-Identifier: Apache-2.0
"""GFile for PyTorch: one API for local files and remote stores.

Importing this package imports neither torch nor fsspec.
"""

from typing import Any

from torch_google.gfile.failures import ChecksumError, TransientError, is_transient
from torch_google.gfile.filesystem import FileStatus, Filesystem
from torch_google.gfile.location import is_remote
from torch_google.gfile.operations import (
    Copy,
    DeleteRecursively,
    Exists,
    Glob,
    IsDirectory,
    ListDir,
    MakeDir,
    MakeDirs,
    Open,
    Remove,
    Rename,
    Stat,
    Sweep,
    Walk,
)
from torch_google.gfile.retry import Retry
from torch_google.gfile.schemes import filesystem_of, register_scheme
from torch_google.gfile.settings import Settings, configure, configured, settings

# These names are imported on first use, because their modules need etils or torch.
_LAZY = {
    "CheckpointReader": ("checkpoint", "Reader"),
    "CheckpointWriter": ("checkpoint", "Writer"),
    "GPath": ("gpath", "GPath"),
    "set_compile_cache": ("compile_cache", "set_compile_cache"),
    "set_debug_directory": ("compile_cache", "set_debug_directory"),
}

__all__ = [
    "CheckpointReader",
    "CheckpointWriter",
    "ChecksumError",
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FileStatus",
    "Filesystem",
    "GPath",
    "Glob",
    "IsDirectory",
    "ListDir",
    "MakeDir",
    "MakeDirs",
    "Open",
    "Remove",
    "Rename",
    "Retry",
    "Settings",
    "Stat",
    "Sweep",
    "TransientError",
    "Walk",
    "configure",
    "configured",
    "filesystem_of",
    "is_remote",
    "is_transient",
    "register_scheme",
    "set_compile_cache",
    "set_debug_directory",
    "settings",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        module, attribute = _LAZY[name]
        return getattr(import_module(f"{__name__}.{module}"), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
