# SPDX-License-Identifier: Apache-2.0
"""The PAR's executable needs only the C library, and its archive does not contain libtorch."""

from __future__ import annotations

import functools
import struct
import zipfile

from tests.static import program
from tools.par.compiler import elf

_LOADER = "ld-linux-x86-64.so.2"
_PT_INTERP = 3
_DT_RPATH, _DT_RUNPATH = 15, 29
_ZSTD = 93

# The third-party wheels that may contain shared objects, each with the reason.
_WHEELS = {
    "numpy": "torch converts arrays with it",
    "numpy.libs": "NumPy's OpenBLAS and Fortran runtime",
    "jaxlib": "the tpu device compiles with it",
    "ml_dtypes": "jaxlib's number formats",
    "scipy": "jax imports it",
    "scipy.libs": "SciPy's OpenBLAS and Fortran runtime",
    "markupsafe": "a dependency of jinja2, with which torch generates kernels",
    "aiohttp": "gfile reads http and https with it",
    "frozenlist": "aiohttp's",
    "multidict": "aiohttp's",
    "propcache": "aiohttp's",
    "yarl": "aiohttp's",
    ".par/cc_runtime": "libstdc++, libgcc_s and libz for those wheels, if the machine has none",
}
_OF_TORCH = ("torch", "c10", "functorch", "gomp", "_C.")


def test_it_needs_libc_and_libm_and_no_other_library() -> None:
    needed = set(elf.read_dynamic(_file()).needed)
    assert needed - {_LOADER} == {"libc.so.6", "libm.so.6"}


def test_the_loader_is_the_machines_and_finds_libraries_by_itself() -> None:
    """The executable has no RPATH, and its ELF interpreter is not in a build folder."""
    data = _file()
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<2H", data, 54)
    headers = [struct.unpack_from("<2L6Q", data, table + i * size) for i in range(count)]
    (interpreter,) = [data[h[2] : h[2] + h[5]] for h in headers if h[0] == _PT_INTERP]
    assert interpreter == f"/lib64/{_LOADER}\0".encode()
    (dynamic,) = [data[h[2] : h[2] + h[5]] for h in headers if h[0] == 2]
    tags = {tag for tag, _ in struct.iter_unpack("<2Q", dynamic)}
    assert tags.isdisjoint({_DT_RPATH, _DT_RUNPATH})


def test_no_library_of_torch_is_in_the_archive() -> None:
    names = [name.rpartition("/")[2] for name in _natives()]
    assert [name for name in names if any(word in name for word in _OF_TORCH)] == []


def test_shared_objects_are_those_of_the_wheels_that_are_listed() -> None:
    """`_WHEELS` must give a reason for each wheel that contains shared objects.

    Users must trust each shared object, and the PAR has to unpack it.
    """
    owners = {_owner(name) for name in _natives()}
    assert owners == set(_WHEELS)


def _owner(name: str) -> str:
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == ".par" else parts[0]


@functools.cache
def _file() -> bytes:
    return program.PAR.read_bytes()


def _natives() -> list[str]:
    """Return the names of the ELF files in the archive.

    Only ELF files and rarely used .pyc files are compressed with zstd.
    """
    with zipfile.ZipFile(program.PAR) as archive:
        members = archive.infolist()
    natives = [
        member.filename
        for member in members
        if member.compress_type == _ZSTD and not member.filename.endswith(".pyc")
    ]
    assert natives
    assert {member.filename for member in members if member.filename.endswith(".so")} <= {*natives}
    return natives
