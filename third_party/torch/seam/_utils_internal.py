# SPDX-License-Identifier: Apache-2.0
"""Where torch asks its surroundings: which file is where, and what build this is.

Upstream keeps those questions in one module so that a monorepo can replace it. This is the replacement:
everything that upstream's file defines, with answers that hold when torch is inside an archive. Native
libraries, headers and programs must be files, and the loader that brought torch here knows where they
are (`native_path`); other data is read through the loader and need not be a file at all. On disk, where
an ordinary loader does the work, every answer is upstream's; and it is this installation, never another
torch among the installed distributions, where upstream may look from v2.14 on.

The patches call these functions, which keeps each hunk at a line or two. What a program may answer
otherwise (which file a path names, where a log goes) is on the board beside this, `torch/_seam`.
Nothing here names whoever answers.
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

# Before upstream's own part of this module, which has the first log and reads the environment.
_seam.plug_in()

from torch._utils_internal_upstream import *  # noqa: E402, F403

# The shared libraries carry their own run paths: a global preload only pollutes the process.
USE_GLOBAL_DEPS = False

_loader: Any = __spec__.loader
_TORCH_DIR = os.path.dirname(__file__)

# Linked into the interpreter. What is a program beside torch elsewhere is the interpreter itself, when
# it is called by the program's name: by its file, since `sys.executable` may be a script in memory, of
# which the kernel drops that name. And there is no library beside torch.
_STATIC = "torch._C" in sys.builtin_module_names


def get_file_path(*path_components: str) -> str:
    """Return where a file or directory of the installation is on disk, by its path below the root.

    `import torch` asks for "torch" alone, only to name it: that unpacks nothing, and in an archive the
    answer is no directory. Ask for "torch", "include" or "torch", "lib" to have their files; a static
    program has no "torch", "lib", whether it is packed or not.
    """
    if _STATIC and path_components[:2] == ("torch", "bin"):
        return "/proc/self/exe"
    native_path = getattr(_loader, "native_path", None)
    no_file = path_components == ("torch",) or (_STATIC and path_components == ("torch", "lib"))
    if native_path is None or no_file:
        return os.path.join(os.path.dirname(_TORCH_DIR), *path_components)
    return native_path("/".join(path_components))


def open_resource(path: str | os.PathLike[str]) -> io.StringIO:
    """Open a text file that stands beside the Python sources, packed or not, to read it."""
    return io.StringIO(_loader.get_data(os.fspath(path)).decode("utf-8"))


def read_file(path: str) -> bytes:
    """Read a file, or the source that an imported module's `__file__` names, in whatever archive."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == path:
                return module.__spec__.loader.get_data(path)  # type: ignore[union-attr]
        raise


def module_files(package_path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, file) for the modules right below a package's `__path__`, sorted by name."""
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
    """Return the stamp of this build's sources: the key of every compile cache."""
    with open_resource(os.path.join(_TORCH_DIR, "src_hash.txt")) as stamp:
        return stamp.read().strip().encode("ascii")
