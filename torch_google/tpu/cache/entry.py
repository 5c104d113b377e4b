# SPDX-License-Identifier: Apache-2.0
"""The file format of a cache entry: an executable and a note (JSON metadata), with a checksum.

A file consists of a header line, the SHA-256 of the rest, the length of the metadata, the metadata
(a description of the executable, and the note) as JSON, and the executable as XLA serialized it.
Decoding a file does not execute code from it, but running the executable does.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from torch_google.tpu.cache.loading import describe, load

_HEADER = b"torch_google tpu program 3\n"
_DIGEST = hashlib.sha256().digest_size
_LENGTH = struct.Struct("<Q")
# Errors that JAX, XLA or json raise if an executable or its note (metadata) cannot be serialized.
_REFUSALS = (
    ValueError,
    NotImplementedError,
    jax.errors.JaxRuntimeError,
    AttributeError,
    TypeError,
    RecursionError,
)


class UnusableEntry(Exception):
    """Raised if bytes do not form an entry that this process can use. The message says why."""


class UnstorableProgram(Exception):
    """Raised if an executable or its note (metadata) cannot be serialized. The message says why."""


@dataclass(frozen=True)
class Entry:
    """An executable, which may be None, and a note: the caller's metadata.

    The note must survive conversion to JSON and back unchanged, so it must be None, a number, a
    string, a list, or a dict with string keys.
    """

    executable: jax.stages.Compiled | None
    note: Any


@dataclass(frozen=True)
class UnloadedEntry:
    """An entry whose executable is loaded on demand. Loading takes a millisecond or more."""

    description: Any
    code: bytes
    note: Any

    @property
    def has_executable(self) -> bool:
        """Return whether the entry contains an executable."""
        return self.description is not None

    def loaded(self, devices: Sequence[jax.Device]) -> Entry:
        """Return the entry with its executable loaded on `devices`.

        Raises UnusableEntry if the executable cannot be loaded.
        """
        if not self.has_executable:
            return Entry(None, self.note)
        try:
            return Entry(load(self.description, self.code, devices), self.note)
        except Exception as error:
            raise _cannot_be_loaded(error) from error


def encode(entry: Entry) -> bytes:
    """Convert an entry to bytes. Raises UnstorableProgram if that is impossible."""
    description, code = None, b""
    try:
        if entry.executable is not None:
            description, code = describe(entry.executable)
        metadata = json.dumps([description, entry.note], separators=(",", ":")).encode()
    except _REFUSALS as error:
        raise UnstorableProgram(str(error)) from error
    body = _LENGTH.pack(len(metadata)) + metadata + code
    return _HEADER + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> UnloadedEntry:
    """Convert bytes to an entry. Raises UnusableEntry if the bytes are damaged."""
    if not data.startswith(_HEADER):
        raise UnusableEntry("it does not start with an entry's header")
    body = memoryview(data)[len(_HEADER) + _DIGEST :]
    if hashlib.sha256(body).digest() != data[len(_HEADER) : len(_HEADER) + _DIGEST]:
        raise UnusableEntry("its checksum differs")
    try:
        (length,) = _LENGTH.unpack_from(body)
        description, note = json.loads(bytes(body[_LENGTH.size : _LENGTH.size + length]))
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise _cannot_be_loaded(error) from error
    return UnloadedEntry(description, bytes(body[_LENGTH.size + length :]), note)


def _cannot_be_loaded(error: Exception) -> UnusableEntry:
    # The checksum is correct, so the file is intact, but a different version of XLA or of this
    # package probably wrote it. XLA may raise any error for such a file.
    return UnusableEntry(f"it cannot be loaded: {type(error).__name__}: {error}")
