# SPDX-License-Identifier: Apache-2.0
"""A program's symbol table has symbols of code, for stack traces of crashes, and none of data."""

from __future__ import annotations

import struct
from pathlib import Path

_SYMTAB = 2  # sh_type
_EXECUTABLE = 4  # sh_flags
_ABSOLUTE = 0xFFF1  # st_shndx of the names of source files


def _names(data: bytes) -> tuple[set[str], set[str]]:
    """Return the names of code and of data in the table .symtab of an executable."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<2H", data, 58)
    sections = [struct.unpack_from("<2L4Q2L2Q", data, table + i * size) for i in range(count)]
    (symtab,) = (section for section in sections if section[1] == _SYMTAB)
    strings = sections[symtab[6]][4]
    code: set[str] = set()
    others: set[str] = set()
    for offset, _, _, section, _, _ in struct.iter_unpack(
        "<L2BH2Q", data[symtab[4] : symtab[4] + symtab[5]]
    ):
        start = strings + offset
        name = data[start : data.index(b"\0", start)].decode()
        if section not in (0, _ABSOLUTE) and name:
            (code if sections[section][2] & _EXECUTABLE else others).add(name)
    return code, others


def test_symbols_name_code() -> None:
    code, others = _names(Path("/proc/self/exe").read_bytes())
    assert {"main", "_PyEval_EvalFrameDefault"} <= code
    # A variable in one source file may have the name of a function in another.
    assert others <= code
