# SPDX-License-Identifier: Apache-2.0
"""Read the images in a fat binary, the kernel names in a cubin, and a library's symbols.

NVIDIA does not document the format of fat binaries. This module reads the fields that nvFatbin
writes and `cuobjdump` prints.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = 0xBA55ED50
_EM_CUDA = 190
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_STT_FUNC = 2


class Kind(enum.Enum):
    PTX = 1
    CUBIN = 2


@dataclass(frozen=True)
class Image:
    """An image in a fat binary: code for one architecture. `arch` is its number, such as 90."""

    kind: Kind
    arch: int
    content: bytes


def images(data: bytes) -> Iterator[Image]:
    """Yield the images of a fat binary. Raises a ValueError if `data` is not a fat binary."""
    magic, _version, header, size = struct.unpack_from("<IHHQ", data)
    if magic != _MAGIC:
        raise ValueError(f"a fat binary begins with {_MAGIC:#x}, this one with {magic:#x}")
    position, end = header, header + size
    while position < end:
        kind, _version, header, size = struct.unpack_from("<HHIQ", data, position)
        (arch,) = struct.unpack_from("<I", data, position + 28)
        start = position + header
        yield Image(Kind(kind), arch, data[start : start + size])
        position = start + size


@dataclass(frozen=True)
class Cubin:
    """The architecture number of a cubin, and the names of its kernels."""

    arch: int
    kernels: frozenset[str]


def read_cubin(data: bytes) -> Cubin:
    """Parse a cubin, an ELF file for NVIDIA's GPUs. Raises a ValueError for any other data."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("a cubin is an ELF file of 64 bits, little endian")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != _EM_CUDA:
        raise ValueError(f"the machine is {machine}, not NVIDIA CUDA ({_EM_CUDA})")
    (flags,) = struct.unpack_from("<I", data, 48)
    kernels = (name for name, kind in _symbols(data, _SHT_SYMTAB) if kind == _STT_FUNC)
    return Cubin(arch=flags & 0xFF, kernels=frozenset(kernels))


def dynamic_symbols(library: bytes) -> set[str]:
    """Return the names that a shared library exports or imports."""
    return {name for name, _ in _symbols(library, _SHT_DYNSYM)}


def _symbols(data: bytes, table: int) -> Iterator[tuple[str, int]]:
    """Yield the name and the type of each symbol that is not local."""
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<2H", data, 58)
    headers = [struct.unpack_from("<2I4Q2I2Q", data, sections + i * size) for i in range(count)]
    for header in headers:
        if header[1] != table:
            continue
        strings = headers[header[6]][4]
        for start in range(header[4], header[4] + header[5], header[9]):
            name, info = struct.unpack_from("<IB", data, start)
            if info >> 4:
                text = data[strings + name : data.index(b"\0", strings + name)]
                yield text.decode(), info & 15
