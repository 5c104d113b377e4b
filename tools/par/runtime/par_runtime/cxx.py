# SPDX-License-Identifier: Apache-2.0
"""The C++ runtime for packed libraries: the machine's if it is at least as new, else ours.

Newer is always compatible, and a compiler of this machine (torch.compile) makes code for this
machine's runtime; a machine without one (a bare container) gets the copy in the archive.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

import _par

from par_runtime import files, memory, unpack

if TYPE_CHECKING:
    from _par_boot import Runtime

_SYSTEM = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
)
_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")  # the second needs the first


@functools.cache
def provide(runtime: Runtime) -> None:
    bundle = next((b for b in runtime.bundles if b.name == "cc_runtime"), None)
    if bundle is None or bundle.on_disk:
        return
    packed = {os.path.basename(name): name for name in files.natives(bundle)}
    ours = max(row[6] for row in files.natives(bundle).values())
    if _system_version() >= ours:
        return
    for name in _LIBRARIES:
        try:
            path = os.path.join(unpack.bundle_directory(bundle, "lib"), packed[name])
        except OSError:
            path = memory.library(bundle, packed[name])
        _par.dlopen(path)


def _system_version() -> int:
    """N of libstdc++.so.6.0.N on this machine; -1 where there is none."""
    for directory in _SYSTEM:
        path = os.path.join(directory, _LIBRARIES[1])
        if os.path.exists(path) and os.path.exists(os.path.join(directory, _LIBRARIES[0])):
            match = re.search(r"\.so\.6\.0\.(\d+)$", os.path.realpath(path))
            return int(match.group(1)) if match else 0
    return -1
