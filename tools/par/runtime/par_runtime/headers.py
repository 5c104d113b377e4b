# SPDX-License-Identifier: Apache-2.0
"""Tells sysconfig where Python.h is: packed with the program, unpacked with a wheel's headers."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING

from par_runtime import cache

if TYPE_CHECKING:
    from _par_importer import Runtime

DEVELOPER_SUFFIX = ".dev"


def place(runtime: Runtime, sysconfig: ModuleType) -> None:
    """Points the include directories of a freshly imported sysconfig at the packed headers."""
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
