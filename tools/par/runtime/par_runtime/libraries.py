# SPDX-License-Identifier: Apache-2.0
"""Load the libraries in other bundles that a bundle's own libraries depend on.

If packages are installed in one directory, a run path such as `$ORIGIN/../../nvidia/cu13/lib` leads
from one wheel's libraries to those of another. A PAR has a directory for each wheel, so these paths
lead nowhere. Therefore, all needed libraries are loaded before a bundle's first extension, and the
dynamic linker finds them by their sonames.

A program with `cuda = "system"` does not contain CUDA's libraries. It uses the host's, which are in
the dynamic linker's directories or in those of NVIDIA's installer.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import _par

from par_runtime import cache, files, unpack

if TYPE_CHECKING:
    from _par_importer import Bundle, Runtime

_DRIVER = "libcuda.so.1"
_DRIVER_LIBRARIES = (_DRIVER, "libnvidia-ml.so.1")
_CUDA_DIRECTORIES = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")


def provide(bundle: Bundle, relative: str) -> None:
    """Load the libraries that `bundle` needs, before its extension `relative` is loaded.

    Raises ImportError if a library that the extension itself needs cannot be loaded. For all other
    libraries, an error is reported only when they are used.
    """
    problems = _load_all(bundle)
    required = _required(bundle, relative) if problems else set()
    missing = sorted(required & problems.keys())
    if missing:
        program = os.path.basename(bundle.runtime.program)
        raise ImportError(
            f"{program}: {bundle.name} needs {', '.join(missing)}: {problems[missing[0]]}"
        )


@functools.cache
def _load_all(bundle: Bundle) -> dict[str, str]:
    """Load the libraries that a bundle needs. Return an error for each that cannot be loaded."""
    runtime = bundle.runtime
    problems: dict[str, str] = {}
    for soname in bundle.needs:
        if soname not in _DRIVER_LIBRARIES:
            _load(runtime, soname, problems, set())
    if _DRIVER in bundle.needs and not runtime.interpreter:
        try:
            _par.dlopen(_DRIVER)
        except OSError:
            cache.say(
                runtime.program,
                f"CUDA is off, because this machine has no NVIDIA driver ({_DRIVER})",
            )
    return problems


def _load(runtime: Runtime, soname: str, problems: dict[str, str], seen: set[str]) -> None:
    """Load a library after those that it needs. `seen` prevents endless recursion in cycles."""
    if soname in seen or soname in problems or _par.is_loaded(soname):
        return
    seen.add(soname)
    owner = files.library_owners(runtime).get(soname)
    if owner is None:
        if runtime.settings.get("cuda") == "system":
            _load_from_machine(soname, problems)
        return
    bundle, relative = owner
    for other in files.natives(bundle)[relative][5]:
        if other in files.library_owners(runtime) or other in bundle.needs:
            _load(runtime, other, problems, seen)
    try:
        _par.dlopen(unpack.native_path(bundle, relative))
    except OSError as error:
        problems[soname] = str(error)


def _load_from_machine(soname: str, problems: dict[str, str]) -> None:
    for path in (soname, *(f"{directory}/{soname}" for directory in _CUDA_DIRECTORIES)):
        if path == soname or os.path.exists(path):
            try:
                _par.dlopen(path)
            except OSError:
                continue
            return
    problems[soname] = (
        "not on this machine. Install CUDA and cuDNN, add their directories to LD_LIBRARY_PATH, or"
        ' build the program without cuda = "system"'
    )


def _required(bundle: Bundle, relative: str) -> set[str]:
    """Return the sonames that an extension needs, directly or through its bundle's libraries."""
    natives = files.natives(bundle)
    own = {row[4]: row[5] for row in natives.values() if row[4]}
    seen: set[str] = set()
    todo = list(natives[relative][5])
    while todo:
        soname = todo.pop()
        if soname not in seen:
            seen.add(soname)
            todo.extend(own.get(soname, ()))
    return seen
