# SPDX-License-Identifier: Apache-2.0
"""One entry of the cache as bytes: an executable and a note, which a checksum keeps whole.

A header of one line, the SHA-256 of what follows, then a pickle. What reads it runs code that the
writer chose, as with any cache of compiled programs.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import serialize_executable

_HEADER = b"torch_google tpu program 1\n"
_DIGEST = hashlib.sha256().digest_size
# JAX's own, and pickle's: a program that calls back into Python holds functions of this process.
_REFUSALS = (
    ValueError,
    NotImplementedError,
    jax.errors.JaxRuntimeError,
    AttributeError,
    TypeError,
    pickle.PicklingError,
)


class Unusable(Exception):
    """These bytes are no entry that this process can use; the message says why."""


class Unstorable(Exception):
    """JAX cannot serialize this executable; the message says why."""


@dataclass(frozen=True)
class Entry:
    """`note` is what the caller needs beside the executable, which may be None."""

    executable: jax.stages.Compiled | None
    note: Any


@dataclass(frozen=True)
class Read:
    """An entry whose executable, if it has one, is not loaded yet: a small one takes XLA a millisecond."""

    parts: tuple[bytes, Any, Any] | None
    note: Any

    def loaded(self, devices: Sequence[jax.Device]) -> Entry:
        """Return the entry, ready to run on `devices`. Raises Unusable."""
        if self.parts is None:
            return Entry(None, self.note)
        payload, in_tree, out_tree = self.parts
        try:
            executable = serialize_executable.deserialize_and_load(
                payload,
                in_tree,
                out_tree,
                backend=devices[0].client,
                execution_devices=list(devices),
            )
        except Exception as error:
            raise _cannot_be_loaded(error) from error
        return Entry(executable, self.note)


def encode(entry: Entry) -> bytes:
    """Return the bytes of an entry. Raises Unstorable."""
    parts = None
    if entry.executable is not None:
        try:
            parts = serialize_executable.serialize(entry.executable)
        except _REFUSALS as error:
            raise Unstorable(str(error)) from error
    body = pickle.dumps((parts, entry.note), protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Read:
    """Return the entry of bytes. Raises Unusable."""
    if not data.startswith(_HEADER):
        raise Unusable("it does not begin as an entry does")
    body = memoryview(data)[len(_HEADER) + _DIGEST :]
    if hashlib.sha256(body).digest() != data[len(_HEADER) : len(_HEADER) + _DIGEST]:
        raise Unusable("its checksum differs")
    try:
        parts, note = pickle.loads(body)
    except Exception as error:
        raise _cannot_be_loaded(error) from error
    return Read(parts, note)


def _cannot_be_loaded(error: Exception) -> Unusable:
    # Whole, and yet of another make: pickle and XLA then raise whatever they meet.
    return Unusable(f"it cannot be loaded: {type(error).__name__}: {error}")
