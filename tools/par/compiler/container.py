# SPDX-License-Identifier: Apache-2.0
"""Write PAR archives, which are zip files whose comment locates the archive's index.

The index is an ordinary zip entry. Entries are written in the order in which they are added, with
constant timestamps, so the same inputs give the same bytes.
"""

from __future__ import annotations

import dataclasses
import marshal
import mmap
import re
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import _par

STORED, DEFLATE, ZSTD = 0, 8, 93
# The zip's comment, which launcher/archive.c reads. It is text, because zip tools print it. Its
# numbers are the index's offset, size and XXH64, the file's size, the archive's start, the XXH64 of
# the bytes before that start, and the XXH64 of the bytes from there up to the last two numbers.
FOOTER = re.compile(rb"PAR index" + rb" ([0-9a-f]{16})" * 7 + rb"\n")
FOOTER_SIZE = 129
_HASHES_SIZE = 34
INDEX_DIRECTORY = ".par"
PAGE = 4096

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s4B4HL2L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_LIMIT32, _LIMIT16 = 0xFFFFFFFF, 0xFFFF
_MAX_NAME = 0xFFFF
_DATE_1980 = 0x21  # 1 January 1980, the earliest date in the zip format
_UTF8_NAMES = 0x800
_VERSION = {STORED: 20, DEFLATE: 20, ZSTD: 63}


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A file in the zip. `offset` is the offset of its local header."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    offset: int


class ArchiveWriter:
    """A writer that appends entries to `stream`, which may already contain a launcher."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._position = self._start = stream.tell()
        self._entries: dict[str, Entry] = {}
        self._sections_start: int | None = None

    @property
    def position(self) -> int:
        return self._position

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def add(self, name: str, data: bytes, *, method: int, crc: int, size: int, mode: int) -> int:
        """Append an entry with the compressed bytes `data`. Return the offset of these bytes."""
        entry = Entry(name, method, crc, len(data), size, mode, self._position)
        encoded = name.encode()
        if len(encoded) > _MAX_NAME or max(len(data), size) >= _LIMIT32:
            raise ValueError(f"{name}: the name or the file is too large for an archive")
        header = _LOCAL.pack(
            b"PK\x03\x04", _VERSION[method], _UTF8_NAMES, method, 0, _DATE_1980,
            crc, len(data), size, len(encoded), 0,
        )  # fmt: skip
        self._write(header + encoded)
        start = self._position
        self._write(data)
        self._entries[name] = entry
        return start

    def add_stored(self, name: str, data: bytes, *, mode: int = 0o644) -> int:
        return self.add(name, data, method=STORED, crc=zlib.crc32(data), size=len(data), mode=mode)

    def copy(self, block: memoryview, entries: list[Entry]) -> int:
        """Append a block of complete entries, whose offsets are relative to the block's start.

        Return the block's offset in the archive. If several entries have the same name, the first
        wins.
        """
        self.align()
        shift = self._position
        self._write(block)
        for entry in entries:
            moved = dataclasses.replace(entry, offset=entry.offset + shift)
            self._entries.setdefault(entry.name, moved)
        return shift

    def align(self) -> None:
        """Pad to a page boundary, at which the file can be cut into parts (see parts.py)."""
        self._write(bytes(-self._position % PAGE))

    def add_section(self, name: str, value: Any) -> tuple[int, int, int]:
        """Write a marshalled section of the index. Return its (offset, size, XXH64)."""
        if self._sections_start is None:
            self._sections_start = self._position
        data = marshal.dumps(value)
        offset = self.add_stored(f"{INDEX_DIRECTORY}/{name}", data)
        return offset, len(data), _par.hash(data)

    def finish(self, index: dict[str, Any]) -> int:
        """Write the index, the central directory and the footer. Return the file's size.

        The two hashes of the file in the footer are 0 until `seal` writes them.
        """
        index = {**index, "end": self._sections_start}
        offset, size, digest = self.add_section("index", index)
        start = self._position
        entries = sorted(self._entries.values(), key=lambda e: e.name)
        for entry in entries:
            self._write(_central(entry))
        length = self._position - start
        if len(entries) >= _LIMIT16 or self._position >= _LIMIT32:
            self._write(_end64(len(entries), length, start, self._position))
        total = self._position + _END.size + FOOTER_SIZE
        count = min(len(entries), _LIMIT16)
        end = _END.pack(
            b"PK\x05\x06", 0, 0, count, count,
            min(length, _LIMIT32), min(start, _LIMIT32), FOOTER_SIZE,
        )  # fmt: skip
        self._write(end)
        numbers = (offset, size, digest, total, self._start, 0, 0)
        self._write(b"PAR index" + b" %016x" * 7 % numbers + b"\n")
        return total

    def _write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._position += len(data)


def seal(stream: BinaryIO) -> None:
    """Fill in the two hashes in the footer of a finished file. PAR_VERIFY=1 checks them."""
    stream.flush()
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        match = FOOTER.fullmatch(mapped[-FOOTER_SIZE:])
        if match is None:
            raise ValueError("the file has no footer: call finish() first")
        start, end = int(match[5], 16), len(mapped) - _HASHES_SIZE
        with memoryview(mapped) as view, view[:start] as launcher, view[start:end] as archive:
            hashes = (_par.hash(launcher), _par.hash(archive))
    stream.seek(end)
    stream.write(b"%016x %016x\n" % hashes)


def read_index(data: memoryview, path: Path) -> tuple[dict[str, Any], int]:
    """Return the index of a finished archive, and the offset at which its sections start."""
    match = FOOTER.fullmatch(data[-FOOTER_SIZE:])
    offset, size, digest, total = (int(n, 16) for n in match.groups()[:4]) if match else (0,) * 4
    if total != len(data):
        raise ValueError(f"{path}: not a finished archive: found {len(data)} bytes; build it again")
    blob = data[offset : offset + size]
    if _par.hash(blob) != digest:
        raise ValueError(f"{path}: its index is damaged; build it again")
    try:
        index = marshal.loads(blob)
        end = index["end"]
    except (EOFError, KeyError, TypeError, ValueError, MemoryError):
        end = None
    if type(end) is not int or not 0 <= end <= len(data):
        raise ValueError(f"{path}: its index is damaged; build it again")
    return index, end


def _central(entry: Entry) -> bytes:
    extra = b""
    offset = entry.offset
    if offset >= _LIMIT32:
        extra = struct.pack("<2HQ", 1, 8, offset)
        offset = _LIMIT32
    encoded = entry.name.encode()
    unix, version = 3, _VERSION[entry.method]
    record = _CENTRAL.pack(
        b"PK\x01\x02", version, unix, version, 0, _UTF8_NAMES, entry.method, 0, _DATE_1980,
        entry.crc, entry.packed, entry.size, len(encoded), len(extra), 0, 0, 0,
        (0o100000 | entry.mode) << 16, offset,
    )  # fmt: skip
    return record + encoded + extra


def _end64(count: int, length: int, start: int, here: int) -> bytes:
    unix45 = 3 << 8 | 45
    return _END64.pack(
        b"PK\x06\x06", _END64.size - 12, unix45, 45, 0, 0, count, count, length, start
    ) + _LOCATOR64.pack(b"PK\x06\x07", 0, here, 1)
