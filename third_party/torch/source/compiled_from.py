# SPDX-License-Identifier: Apache-2.0
"""Read from a shared library which source files it was compiled from.

Use this module for a release whose wheel is available but whose source is not. A library contains
the name of each compiled file (in symbols of type FILE) and the paths of most files (in the error
messages of their checks).
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

_MAGIC = b"\x7fELF\x02\x01"  # a 64-bit, little-endian ELF file
_SHT_SYMTAB, _STT_FILE = 2, 4
_SYMBOL = struct.Struct("<IBBHQQ")
# Matches a path and captures the part relative to the source tree. Generated files are in `build`.
_PATH = re.compile(
    rb"/((?:build/)?(?:aten|c10|caffe2|functorch|torch)/[\w./+-]+\.(?:cpp|cc|c))(?=[\0\"])"
)
# The build compiles some files once for each CPU capability, from copies with these suffixes.
_CAPABILITY = re.compile(r"\.(?:DEFAULT|AVX2|AVX512|AMX)\.cpp$")


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """The base names of all compiled files, and the paths of most of them in the source tree."""

    names: frozenset[str]
    paths: frozenset[str]

    def has(self, file: str) -> bool:
        return PurePosixPath(file).name in self.names


def read(libraries: Iterable[Path]) -> Sources:
    """Return all source files that any of the libraries was compiled from.

    Raises:
        ValueError: a file is not a 64-bit ELF library, or its symbols were stripped.
    """
    names: set[str] = set()
    paths: set[str] = set()
    for library in libraries:
        data = library.read_bytes()
        if not data.startswith(_MAGIC):
            raise ValueError(f"{library} is not a shared library (ELF, 64 bits, little endian)")
        file_names = {_CAPABILITY.sub("", name) for name in _files(data)}
        if not file_names:
            raise ValueError(f"{library} names no file that it was compiled from: it was stripped")
        names |= file_names
        paths |= {_CAPABILITY.sub("", path.decode()) for path in _PATH.findall(data)}
    return Sources(
        names=frozenset(names | {PurePosixPath(path).name for path in paths}),
        paths=frozenset(paths),
    )


def _files(data: bytes) -> Iterator[str]:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<2H", data, 58)
    sections = [struct.unpack_from("<2I4Q2I2Q", data, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _SHT_SYMTAB:
            continue
        strings = sections[link][4]
        for name, info, *_ in _SYMBOL.iter_unpack(data[offset : offset + length]):
            if info & 0xF == _STT_FILE and name:
                yield data[strings + name : data.index(b"\0", strings + name)].decode()
