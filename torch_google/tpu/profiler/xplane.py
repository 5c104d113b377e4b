# SPDX-License-Identifier: Apache-2.0
"""Adds names and arguments to kernels in an XPlane file, the format that XProf reads.

The file is a protocol buffer (xplane.proto of XLA). This module knows only the fields below, and
copies all others unchanged. To change a field, it appends the field again: the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

# Numbers of fields. A map's entry has the fields 1 (key) and 2 (value).
_SPACE_PLANE = 1
_PLANE_LINE, _PLANE_EVENTS, _PLANE_STATS = 3, 4, 5
_LINE_EVENT = 4
_EVENT_METADATA, _EVENT_STAT = 1, 4
_METADATA_ID, _METADATA_NAME, _METADATA_DISPLAY_NAME = 1, 2, 4
_STAT_METADATA, _STAT_TEXT, _STAT_REFERENCE = 1, 5, 7
_STAT_UNSIGNED, _STAT_SIGNED = 3, 4

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# A kernel's HLO module, its HLO operation, and the id of the run, if the trace has one.
Kernel = tuple[str, str, str | None]


def name_kernels(path: Path, names: Mapping[Kernel, tuple[str, Mapping[str, str]]]) -> None:
    """Give each kernel in `names` its name and arguments, in place."""
    parts = []
    for number, value, raw in _fields(path.read_bytes()):
        if number == _SPACE_PLANE and isinstance(value, bytes):
            raw = _field(number, _Plane(value, names).renamed())
        parts.append(raw)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(b"".join(parts))
    partial.replace(path)


class _Plane:
    def __init__(self, data: bytes, names: Mapping[Kernel, tuple[str, Mapping[str, str]]]) -> None:
        self._data, self._names = data, names
        self._events: dict[int, bytes] = {}
        self._stats: dict[int, str] = {}
        for number, value, _ in _fields(data):
            if number in (_PLANE_EVENTS, _PLANE_STATS):
                entry = {key: each for key, each, _ in _fields(_data(value))}
                key, metadata = entry.get(1, 0), _data(entry.get(2, b""))
                assert isinstance(key, int)
                if number == _PLANE_EVENTS:
                    self._events[key] = metadata
                else:
                    fields = {name: each for name, each, _ in _fields(metadata)}
                    self._stats[key] = _data(fields.get(_METADATA_NAME, b"")).decode()
        self._ids = {name: key for key, name in self._stats.items()}
        self._added: list[bytes] = []
        self._renamed: dict[tuple[int, str], int] = {}

    def renamed(self) -> bytes:
        """Return the plane with the new names."""
        if not {"hlo_module", "hlo_op"} <= self._ids.keys():
            return self._data
        parts = [
            _field(number, self._line(value))
            if number == _PLANE_LINE and isinstance(value, bytes)
            else raw
            for number, value, raw in _fields(self._data)
        ]
        return b"".join([*parts, *self._added])

    def _line(self, line: bytes) -> bytes:
        return b"".join(
            _field(number, self._event(value))
            if number == _LINE_EVENT and isinstance(value, bytes)
            else raw
            for number, value, raw in _fields(line)
        )

    def _event(self, event: bytes) -> bytes:
        metadata = 0
        stats: dict[str, str] = {}
        for number, value, _ in _fields(event):
            if number == _EVENT_METADATA and isinstance(value, int):
                metadata = value
            elif number == _EVENT_STAT:
                stats |= self._stat(_data(value))
        kernel = (stats.get("hlo_module", ""), stats.get("hlo_op", ""), stats.get("run_id"))
        if kernel not in self._names:
            return event
        name, arguments = self._names[kernel]
        parts = [event, _number(_EVENT_METADATA, self._metadata(metadata, name))]
        for argument, text in arguments.items():
            stat = _number(_STAT_METADATA, self._stat_id(argument))
            parts.append(_field(_EVENT_STAT, stat + _field(_STAT_TEXT, text.encode())))
        return b"".join(parts)

    def _stat(self, stat: bytes) -> dict[str, str]:
        fields = {number: value for number, value, _ in _fields(stat)}
        key = fields.get(_STAT_METADATA, 0)
        name = self._stats.get(key, "") if isinstance(key, int) else ""
        if _STAT_TEXT in fields:
            return {name: _data(fields[_STAT_TEXT]).decode()}
        if isinstance(reference := fields.get(_STAT_REFERENCE), int):
            return {name: self._stats.get(reference, "")}
        if isinstance(number := fields.get(_STAT_SIGNED), int):
            return {name: str(number - 2**64 if number >= 2**63 else number)}
        return {name: str(fields.get(_STAT_UNSIGNED, ""))}

    def _metadata(self, metadata: int, name: str) -> int:
        """Return the id of a copy of `metadata` with a display name."""
        if (metadata, name) not in self._renamed:
            key = max(self._events, default=0) + 1
            new = self._events.get(metadata, b"") + _number(_METADATA_ID, key)
            self._events[key] = new + _field(_METADATA_DISPLAY_NAME, name.encode())
            self._added.append(_entry(_PLANE_EVENTS, key, self._events[key]))
            self._renamed[metadata, name] = key
        return self._renamed[metadata, name]

    def _stat_id(self, name: str) -> int:
        if name not in self._ids:
            key = self._ids[name] = max(self._stats, default=0) + 1
            self._stats[key] = name
            metadata = _number(_METADATA_ID, key) + _field(_METADATA_NAME, name.encode())
            self._added.append(_entry(_PLANE_STATS, key, metadata))
        return self._ids[name]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """Yield the number, the value and the bytes of each field of a message."""
    position = 0
    while position < len(data):
        start = position
        tag, position = _varint(data, position)
        value: int | bytes
        kind = tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
        else:
            if kind == _BYTES:
                size, position = _varint(data, position)
            else:
                size = {_FIXED64: 8, _FIXED32: 4}[kind]
            value = data[position : position + size]
            position += size
        yield tag >> 3, value, data[start:position]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _data(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _encoded(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def _number(number: int, value: int) -> bytes:
    return _encoded(number << 3 | _VARINT) + _encoded(value)


def _field(number: int, data: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(data)) + data


def _entry(number: int, key: int, value: bytes) -> bytes:
    return _field(number, _number(1, key) + _field(2, value))
