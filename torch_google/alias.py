# SPDX-License-Identifier: Apache-2.0
"""Make `torch.google` an alias of `torch_google`: both names refer to the same modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

_ALIAS = "torch.google"
_REAL = "torch_google"


def install() -> None:
    """Make `import torch.google[.x]` import `torch_google[.x]`. Idempotent."""
    if not any(isinstance(finder, _AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AliasFinder())


class _AliasFinder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        del path, target
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        real = find_spec(_REAL + fullname.removeprefix(_ALIAS))
        if real is None:
            return None
        package = real.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(real), origin=real.origin, is_package=package)


class _AliasLoader(Loader):
    """A loader for an alias. It imports and returns the real module instead of creating a copy."""

    def __init__(self, real: ModuleSpec) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        module = import_module(self._real.name)
        self._real = module.__spec__ or self._real
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has overwritten the real module's `__spec__` with the alias's spec.
        module.__spec__ = self._real

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, so that `python -m torch.google.x` works."""
        del fullname
        loader: Any = self._real.loader
        code: CodeType | None = loader.get_code(self._real.name)
        return code
