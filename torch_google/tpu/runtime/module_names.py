# SPDX-License-Identifier: Apache-2.0
"""Passes C++ the name of the module whose `forward` is running, such as `Net.layers.3.attention`.

The memory history and the profiler use the names. While neither is on, modules have no hooks.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from torch_google.tpu import _C


class _Running(threading.local):
    """The modules whose `forward` is running in a thread, from the outermost to the innermost."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.stack: list[str] = []


_users: set[str] = set()
_running = _Running()
_names: WeakKeyDictionary[torch.nn.Module, dict[int, str]] = WeakKeyDictionary()
_hooks: list[Any] = []
_filters: list[Any] = []


def start(user: str) -> None:
    """Start tracking the names of modules whose `forward` runs.

    `user` identifies the feature that needs the names until `stop` is called with the same string.
    """
    _users.add(user)
    if not _hooks:
        _hooks.append(register_module_forward_pre_hook(_enter))
        _hooks.append(register_module_forward_hook(_leave, always_call=True))
        # torch.compile(module) would warn users about these global hooks, which they did not add.
        warnings.filterwarnings("ignore", ".*when there are global hooks on modules")
        _filters.append(warnings.filters[0])


def stop(user: str) -> None:
    """Stop tracking module names, unless another feature still needs them. Idempotent."""
    global _running
    _users.discard(user)
    if _users:
        return
    for hook in _hooks:
        hook.remove()
    _hooks.clear()
    filters = cast(list[Any], warnings.filters)
    filters[:] = [each for each in filters if each not in _filters]
    _filters.clear()
    _names.clear()
    _running = _Running()  # other threads may still be inside modules
    _C.set_module_name("")


def _enter(module: torch.nn.Module, args: Any) -> None:
    if torch.compiler.is_compiling():
        return
    running = _running
    if not running.stack:
        running.names = _names_around(module)
    # A module that is not a submodule of the outermost one is named after its class.
    running.stack.append(running.names.get(id(module), type(module).__name__))
    _C.set_module_name(running.stack[-1])


def _leave(module: torch.nn.Module, args: Any, output: Any) -> None:
    if torch.compiler.is_compiling():
        return
    stack = _running.stack
    if stack:  # the hooks may have been registered inside the module
        stack.pop()
    _C.set_module_name(stack[-1] if stack else "")


def _names_around(module: torch.nn.Module) -> dict[int, str]:
    """Return the names of a module and its submodules.

    If the module is part of one that has run before, the names start with the outer module's name.
    This happens when autograd reruns a part of a model for torch.utils.checkpoint.
    """
    names = _names.get(module)
    if names is None:
        names = next((names for names in _names.values() if id(module) in names), None)
    if names is None:
        kind = type(module).__name__
        names = _names[module] = {
            id(child): f"{kind}.{name}" if name else kind for name, child in module.named_modules()
        }
    return names
