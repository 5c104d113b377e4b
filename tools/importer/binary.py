# SPDX-License-Identifier: Apache-2.0
"""Binary patches in git's format: deflated, base85-encoded literals or deltas."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

_HEAD = re.compile(rb"^(literal|delta) (\d{1,10})$")
_LINE_BYTES = 52  # the number of data bytes per line, as in git
_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The maximum output size, so that a malicious size field cannot exhaust memory. The largest
# upstream source file is far smaller.
_LIMIT = 1 << 27


class BinaryError(ValueError):
    """The error raised if a binary patch is malformed or does not apply."""


@dataclass(frozen=True)
class Side:
    """One direction of a binary change: the whole file, or a delta against the other side."""

    data: bytes
    delta: bool


@dataclass(frozen=True)
class Binary:
    """Both directions of a change, and the blob ids of both files (zeros for a missing file)."""

    old_oid: str
    new_oid: str
    forward: Side
    backward: Side | None


def read_binary(lines: Sequence[bytes], index: int, old: str, new: str) -> tuple[Binary, int]:
    """Parse the lines after `GIT binary patch`. Returns the change and the index of the next line.

    Raises BinaryError if the lines are malformed.
    """
    forward, index = _side(lines, index)
    backward = None
    if index < len(lines) and _HEAD.match(lines[index]):
        backward, index = _side(lines, index)
    return Binary(old, new, forward, backward), index


def apply_side(side: Side, other: bytes) -> bytes:
    """Return the file contents that `side` describes, given the bytes of the other side."""
    return _apply_delta(side.data, other) if side.delta else side.data


def write_literal(data: bytes) -> bytes:
    """Return `data` as a `literal` side of a binary patch, including the terminating empty line."""
    out = [b"literal %d\n" % len(data)]
    packed = zlib.compress(data, 9)
    for start in range(0, len(packed), _LINE_BYTES):
        chunk = packed[start : start + _LINE_BYTES]
        out.append(
            _LENGTHS[len(chunk) - 1 : len(chunk)] + base64.b85encode(chunk, pad=True) + b"\n"
        )
    return b"".join(out) + b"\n"


def _side(lines: Sequence[bytes], index: int) -> tuple[Side, int]:
    head = _HEAD.match(lines[index]) if index < len(lines) else None
    if head is None:
        raise BinaryError("a binary patch needs 'literal N' or 'delta N' here")
    size = int(head[2])
    if size > _LIMIT:
        raise BinaryError(f"a binary side of {size} bytes is over the limit of {_LIMIT}")
    packed = bytearray()
    index += 1
    while index < len(lines) and lines[index]:
        line = lines[index]
        length = _LENGTHS.find(line[:1]) + 1
        try:
            chunk = base64.b85decode(line[1:])
        except (ValueError, binascii.Error):
            chunk = b""
        if not length or len(chunk) < length or len(chunk) - length > 3:
            raise BinaryError("a line of a binary patch is damaged")
        packed += chunk[:length]
        index += 1
    if index >= len(lines):
        raise BinaryError("a binary patch is cut short: no empty line ends it")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(bytes(packed), size + 1)
    except zlib.error as error:
        raise BinaryError(f"a binary patch does not inflate: {error}") from None
    if len(data) != size:
        raise BinaryError(f"a binary side has {len(data)} bytes, its header says {size}")
    if not unpacker.eof or unpacker.unused_data:
        raise BinaryError("a binary patch is cut short, or has bytes after its end")
    return Side(data, head[1] == b"delta"), index + 1


def _apply_delta(delta: bytes, base: bytes) -> bytes:
    size, index = _number(delta, 0)
    if size != len(base):
        raise BinaryError(f"the delta is for a file of {size} bytes, this one has {len(base)}")
    promised, index = _number(delta, index)
    if promised > _LIMIT:
        raise BinaryError(f"a delta that gives {promised} bytes is over the limit of {_LIMIT}")
    out = bytearray()
    while index < len(delta) and len(out) <= promised:
        op = delta[index]
        index += 1
        if op & 0x80:
            start, length, index = _copy(delta, op, index)
            if start + length > len(base):
                raise BinaryError("the delta reads past the end of the file")
            out += base[start : start + length]
        elif op:
            out += delta[index : index + op]
            index += op
        else:
            raise BinaryError("the delta has an operation that git does not define")
    if len(out) != promised:
        raise BinaryError(f"the delta gives {len(out)} bytes, its header says {promised}")
    return bytes(out)


def _copy(delta: bytes, op: int, index: int) -> tuple[int, int, int]:
    values = [0, 0]
    for field, shifts in ((0, (0, 8, 16, 24)), (1, (0, 8, 16))):
        for shift in shifts:
            bit = (shift // 8) + (4 if field else 0)
            if op >> bit & 1:
                if index >= len(delta):
                    raise BinaryError("the delta ends within an operation")
                values[field] |= delta[index] << shift
                index += 1
    return values[0], values[1] or 0x10000, index


def _number(delta: bytes, index: int) -> tuple[int, int]:
    value = shift = 0
    while index < len(delta):
        byte = delta[index]
        index += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise BinaryError("the delta has a size that git does not write")
        if not byte & 0x80:
            return value, index
    raise BinaryError("the delta has no size")
