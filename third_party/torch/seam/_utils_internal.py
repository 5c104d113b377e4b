# SPDX-License-Identifier: Apache-2.0
"""The paths of torch's files and the identity of its build.

Upstream keeps these functions in one module so that a monorepo can replace it. This replacement
defines everything that upstream's file does, and its results are also right when torch is inside
an archive. Native libraries, headers and programs must be files; the loader that imported torch knows
where they are (`native_path`). Other data is read through the loader and need not be a file. On
disk, with an ordinary loader, every result is upstream's. From v2.14 on, upstream may look for
another torch among the installed distributions; this module always describes its own
installation.

Patches call these functions, so each hunk is only a line or two. The hooks that a program may
override (which file a path names, where a log goes) are in `torch/_seam`. Nothing here names the
packages that override them.
"""

import functools
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pkgutil import iter_modules
from typing import Any

from torch import _seam
from torch._seam import configs as _configs
from torch._seam import files as _files  # noqa: F401 - patches name torch._seam.files
from torch._seam import logs as _logs  # noqa: F401 - patches name torch._seam.logs
from torch._seam import processes as _processes  # noqa: F401 - patches name torch._seam.processes

# Precedes upstream's own part of this module, which creates the first log and reads the
# environment.
_seam.install_hooks()

from torch._utils_internal_upstream import *  # noqa: E402, F403

# The shared libraries have their own run paths, so a global preload would only pollute the process.
USE_GLOBAL_DEPS = False

_loader: Any = __spec__.loader
_TORCH_DIR = os.path.dirname(__file__)

# Linked into the interpreter, so no torch library is on disk. The programs that other builds ship
# with torch are the interpreter itself, called by the program's name. It is found through /proc,
# because `sys.executable` may be a script in memory, and the kernel drops the name that such a
# script gets.
_STATIC = "torch._C" in sys.builtin_module_names


def get_file_path(*path_components: str) -> str:
    """Return the path on disk of a file or directory, given relative to the installation's root.

    `import torch` requests "torch" alone, only as a name: this unpacks nothing, and in an archive
    the answer is not a directory. Request "torch", "include" or "torch", "lib" to unpack their
    files. A static program has no "torch", "lib", whether it is packed or not.
    """
    if _STATIC and path_components[:2] == ("torch", "bin"):
        return "/proc/self/exe"
    native_path = getattr(_loader, "native_path", None)
    no_file = path_components == ("torch",) or (_STATIC and path_components == ("torch", "lib"))
    if native_path is None or no_file:
        return os.path.join(os.path.dirname(_TORCH_DIR), *path_components)
    return native_path("/".join(path_components))


def open_resource(path: str | os.PathLike[str]) -> io.StringIO:
    """Open a text file next to the Python sources, packed or not, for reading."""
    return io.StringIO(_loader.get_data(os.fspath(path)).decode("utf-8"))


def read_file(path: str) -> bytes:
    """Read a file, or the source that an imported module's `__file__` names, even in an archive."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == path:
                return module.__spec__.loader.get_data(path)  # type: ignore[union-attr]
        raise


def module_files(package_path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, file) for the modules directly in a package's `__path__`, sorted by name."""
    for directory in package_path:
        for info in iter_modules([directory]):
            if not info.ispkg:
                yield info.name, os.path.join(directory, f"{info.name}.py")


def justknobs_check(name: str, default: bool = True) -> bool:
    """Return whether a knob is on."""
    return _configs.knob(name, default)


def justknobs_getval_int(name: str) -> int:
    """Return the number that a knob is set to."""
    return _configs.knob_number(name)


@functools.cache
def source_hash() -> bytes:
    """Return the hash of this build's sources, which is part of the key of every compile cache."""
    with open_resource(os.path.join(_TORCH_DIR, "src_hash.txt")) as stamp:
        return stamp.read().strip().encode("ascii")
