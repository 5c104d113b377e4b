# SPDX-License-Identifier: Apache-2.0
"""Load packed copies of the system libraries that wheels need, if the host lacks them.

A bare container has none of these libraries. If the host has a C++ runtime, the packed copy is used
only if it is newer. A newer runtime runs all code that is built for an older one, but an older one
may not run the output of the host's compiler, which torch.compile uses.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

import _par

from par_runtime import files, memory, unpack

if TYPE_CHECKING:
    from _par_importer import Bundle, Runtime

BUNDLE = "cc_runtime"
_DIRECTORIES = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
)
_CXX = ("libgcc_s.so.1", "libstdc++.so.6")  # in load order: libstdc++ needs libgcc_s
_OTHERS = ("libz.so.1",)


@functools.cache
def provide(runtime: Runtime) -> None:
    """Load the system libraries that the host lacks. Libraries loaded later find them by soname."""
    bundle = next((b for b in runtime.bundles if b.name == BUNDLE), None)
    if bundle is None or bundle.on_disk:
        return
    packed = {os.path.basename(name): name for name in files.natives(bundle)}
    newest = max(row[6] for row in files.natives(bundle).values())
    missing = [name for name in _OTHERS if _find(name) is None]
    if _cxx_version() < newest:
        missing = [*_CXX, *missing]
    for name in missing:
        _par.dlopen(_unpacked_path(bundle, packed[name]))


def _unpacked_path(bundle: Bundle, relative: str) -> str:
    try:
        return os.path.join(unpack.bundle_directory(bundle, "lib"), relative)
    except OSError:
        return memory.library(bundle, relative)


def _find(name: str) -> str | None:
    paths = (os.path.join(directory, name) for directory in _DIRECTORIES)
    return next((path for path in paths if os.path.exists(path)), None)


def _cxx_version() -> int:
    """Return N for the host's libstdc++.so.6.0.N, or -1 if the host has no C++ runtime."""
    libraries = [_find(name) for name in _CXX]
    if None in libraries:
        return -1
    match = re.search(r"\.so\.6\.0\.(\d+)$", os.path.realpath(str(libraries[1])))
    return int(match.group(1)) if match else 0
