# SPDX-License-Identifier: Apache-2.0
"""Read and write a launcher's record of the PAR's size and flags (see seal.h)."""

from __future__ import annotations

import struct
from pathlib import Path

NO_DOORS, IN_PARTS = 1, 2  # flags
_SEAL = struct.Struct("<16sQQ")  # magic, size of the file, flags
_MAGIC = b"PAR launcher v1\0"


def seal_record(size: int, *, flags: int) -> bytes:
    """Return the record for a launcher that is part of a file of `size` bytes."""
    return _SEAL.pack(_MAGIC, size, flags)


def find_seal(launcher: bytes, path: Path) -> int:
    """Return the offset of the record in a launcher that has no program."""
    empty = seal_record(0, flags=0)
    if launcher.count(empty) != 1:
        raise ValueError(f"{path}: not an empty PAR launcher; name the launcher that was built")
    return launcher.index(empty)


def read_seal(launcher: bytes, size: int, path: Path) -> tuple[int, int]:
    """Return the (offset, flags) of the record in a PAR of `size` bytes."""
    head = _MAGIC + struct.pack("<Q", size)
    if launcher.count(head) != 1:
        raise ValueError(f"{path}: not a PAR of {size} bytes; name a par_binary's NAME.par")
    offset = launcher.index(head)
    _, _, flags = _SEAL.unpack_from(launcher, offset)
    return offset, flags
