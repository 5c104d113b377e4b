# SPDX-License-Identifier: Apache-2.0
"""Calls registered functions as soon as the modules that they extend are imported."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Function = Callable[[ModuleType], None]


def after_import(name: str, function: Function) -> None:
    """Call `function(module)` as soon as the module `name` is imported, or now if it already is.

    If the function raises an exception, the import fails with that exception. A function that is
    registered several times before the import is called only once.
    """
    module = sys.modules.get(name)
    if module is not None and not _is_importing(module):
        function(module)
        return
    functions = _FINDER.functions.setdefault(name, [])
    if function not in functions:
        functions.append(function)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def _is_importing(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class _Finder(MetaPathFinder):
    """A finder for modules that have registered functions. It delegates to the other finders."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Function]] = {}
        self._searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.functions or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.remove(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, fullname)
        return spec


class _Loader(Loader):
    """A loader that runs a module's own loader, and then the module's registered functions."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        spec.loader = self._loader  # a loader may read spec.loader
        try:
            return self._loader.create_module(spec)
        finally:
            spec.loader = self

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for function in _FINDER.functions.pop(self._name, []):
            function(sys.modules.get(self._name, module))


_FINDER = _Finder()
