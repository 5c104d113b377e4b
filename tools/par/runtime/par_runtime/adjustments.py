# SPDX-License-Identifier: Apache-2.0
"""Patch standard-library modules that would look on disk for files that are packed in the PAR."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from par_runtime import cache

if TYPE_CHECKING:
    from _par_importer import Runtime

DEVELOPER_SUFFIX = ".dev"


def adjust(runtime: Runtime, module: ModuleType) -> None:
    """Patch a standard-library module immediately after it is imported."""
    if module.__name__ == "sysconfig":
        _place_headers(runtime, module)
    elif module.__name__ == "inspect":
        names = vars(module)
        names["modulesbyfile"] = _ModulesByFile(runtime, names["modulesbyfile"])
    else:
        _keep_to_directories(runtime, module)


class _ModulesByFile(dict[str, str]):
    """A replacement for inspect's file-to-module map, in which packed files are looked up directly.

    For a file that is not in its map, inspect resolves the real path of every loaded module's file.
    Importing torch causes such lookups, because torch records where its operators are defined.
    """

    def __init__(self, runtime: Runtime, known: dict[str, str]) -> None:
        super().__init__(known)
        self._runtime = runtime

    def __contains__(self, file: object) -> bool:
        if super().__contains__(file):
            return True
        name = self._name(file) if isinstance(file, str) else None
        if name is None or name not in sys.modules:
            return False
        self[str(file)] = name
        return True

    def _name(self, file: str) -> str | None:
        for root in {bundle.virtual_root: None for bundle in self._runtime.bundles}:
            if not file.startswith(f"{root}/"):
                continue
            relative = file[len(root) + 1 :]
            name = relative.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            row = self._runtime.modules.get(name)
            if row is not None:
                bundle = self._runtime.bundles[row[0]]
                if f"{bundle.virtual_root}/{row[1]}" == file:
                    return name
        return None


def _place_headers(runtime: Runtime, sysconfig: ModuleType) -> None:
    """Point sysconfig's include directories to the directory to which Python.h is unpacked.

    The directory exists once the headers of any wheel are unpacked: see unpack.bundle_directory.
    """
    bundle = next((b for b in runtime.bundles if b.name == "python_headers"), None)
    if bundle is None:
        return
    directory = bundle.virtual_root
    if not bundle.on_disk:
        caches = cache.directories(runtime)
        if not caches:
            return
        directory = os.path.join(caches[0], f"{bundle.name}-{bundle.stamp}{DEVELOPER_SUFFIX}")
    for scheme in sysconfig._INSTALL_SCHEMES.values():
        for key in ("include", "platinclude"):
            if key in scheme:
                scheme[key] = directory


def _keep_to_directories(runtime: Runtime, metadata: ModuleType) -> None:
    """Stop importlib.metadata from opening the PAR, which is on sys.path, as a zip file.

    The importer already finds all distributions in the PAR, and opening it would take 0.1 s.
    """
    roots = tuple(f"{b.virtual_root}/" for b in runtime.bundles if not b.on_disk)
    children = metadata.FastPath.children

    def outside(self: Any) -> list[str]:
        return [] if f"{self.root}/".startswith(roots) else children(self)

    if roots:
        metadata.FastPath.children = outside
