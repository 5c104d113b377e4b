# SPDX-License-Identifier: Apache-2.0
"""Two modules of the standard library that would look for files where a PAR has none."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from par_runtime import cache

if TYPE_CHECKING:
    from _par_importer import Runtime

DEVELOPER_SUFFIX = ".dev"


def adjust(runtime: Runtime, module: ModuleType) -> None:
    """Called with each of the two when it has just been imported."""
    if module.__name__ == "sysconfig":
        _place_headers(runtime, module)
    else:
        _keep_to_directories(runtime, module)


def _place_headers(runtime: Runtime, sysconfig: ModuleType) -> None:
    """Points sysconfig's include directories at the packed Python.h.

    The directory is there once a wheel's headers are unpacked: see unpack.bundle_directory.
    """
    bundle = next((b for b in runtime.bundles if b.name == "python_headers"), None)
    if bundle is None:
        return
    directory = bundle.virtual_root
    if not bundle.on_disk:
        found = cache.directories(runtime.program)
        if not found:
            return
        directory = os.path.join(found[0], f"{bundle.name}-{bundle.stamp}{DEVELOPER_SUFFIX}")
    for scheme in sysconfig._INSTALL_SCHEMES.values():
        for key in ("include", "platinclude"):
            if key in scheme:
                scheme[key] = directory


def _keep_to_directories(runtime: Runtime, metadata: ModuleType) -> None:
    """Stops importlib.metadata from reading the PAR on sys.path as a zip file.

    The importer answers for all that is in it; zipfile would take a tenth of a second to list it.
    """
    roots = tuple(f"{b.virtual_root}/" for b in runtime.bundles if not b.on_disk)
    children = metadata.FastPath.children

    def outside(self: Any) -> list[str]:
        return [] if f"{self.root}/".startswith(roots) else children(self)

    if roots:
        metadata.FastPath.children = outside
