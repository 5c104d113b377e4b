# SPDX-License-Identifier: Apache-2.0
"""Read a library's soname and dependencies, which the runtime needs to load it from memory."""

from __future__ import annotations

import dataclasses
import re
import struct

_MAGIC = b"\x7fELF\x02\x01"  # the start of a 64-bit little-endian file
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_SONAME = 1, 5, 14
_GLIBCXX = re.compile(rb"\x00GLIBCXX_3\.4\.(\d+)(?=\x00)")


@dataclasses.dataclass(frozen=True, slots=True)
class Dynamic:
    soname: str
    needed: tuple[str, ...]


def is_elf(data: bytes) -> bool:
    return data.startswith(_MAGIC)


def read_dynamic(data: bytes) -> Dynamic:
    """Return DT_SONAME and DT_NEEDED, which are empty if the file has no dynamic section."""
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<2H", data, 54)
    loads, dynamic = [], None
    for i in range(count):
        kind, _, offset, address, _, length, _, _ = struct.unpack_from(
            "<2L6Q", data, table + i * size
        )
        if kind == _PT_LOAD:
            loads.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = (offset, length)
    if dynamic is None:
        return Dynamic("", ())
    tags = list(struct.iter_unpack("<2Q", data[dynamic[0] : dynamic[0] + dynamic[1] // 16 * 16]))
    strings = next((v for tag, v in tags if tag == _DT_STRTAB), None)
    if strings is None:
        return Dynamic("", ())
    base = next(strings - a + o for a, o, n in loads if a <= strings < a + n)

    def text(position: int) -> str:
        start = base + position
        return data[start : data.index(b"\0", start)].decode()

    return Dynamic(
        soname=next((text(v) for tag, v in tags if tag == _DT_SONAME), ""),
        needed=tuple(text(v) for tag, v in tags if tag == _DT_NEEDED),
    )


def glibcxx_version(data: bytes) -> int:
    """Return the largest N such that libstdc++.so defines GLIBCXX_3.4.N, or 0 if there is none."""
    return max((int(n) for n in _GLIBCXX.findall(data)), default=0)
