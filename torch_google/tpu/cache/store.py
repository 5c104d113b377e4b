# SPDX-License-Identifier: Apache-2.0
"""Reads and writes programs and their notes (JSON metadata) in the compile cache."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import jax

from torch_google.tpu.cache.entry import (
    Entry,
    UnloadedEntry,
    UnstorableProgram,
    UnusableEntry,
    decode,
    encode,
)
from torch_google.tpu.cache.environment import environment
from torch_google.tpu.cache.settings import (
    current,
    note_read,
    readable,
    statistics,
    stop_writing,
    warn,
    writable,
)
from torch_google.tpu.cache.trust import UntrustedEntry


class StoredEntry:
    """The cache entry for a fingerprint. Its executable is loaded on demand."""

    def __init__(
        self, read: UnloadedEntry, name: str, store: object, devices: Sequence[jax.Device]
    ) -> None:
        self.note: Any = read.note
        self.has_executable = read.has_executable
        self._read: UnloadedEntry | None = read
        self._entry: Entry | None = None
        self._name = name
        self._store = store
        self._devices = devices
        self._one_by_one = threading.RLock()

    def loaded(self) -> Entry | None:
        """Return the entry with its executable loaded. If that fails, warn once and return None."""
        with self._one_by_one:
            read = self._read
            if read is not None:
                try:
                    self._entry = read.loaded(self._devices)
                except UnusableEntry as error:
                    statistics().hits -= 1
                    statistics().misses += 1
                    _reject(self._name, self._store, error)
                self._read = None
            return self._entry


def load_entry(fingerprint: str, devices: Sequence[jax.Device]) -> Entry | None:
    """Return the entry for a fingerprint with its executable loaded, or None if there is none."""
    entry = find_entry(fingerprint, devices)
    return None if entry is None else entry.loaded()


def find_entry(fingerprint: str, devices: Sequence[jax.Device]) -> StoredEntry | None:
    """Return the entry for a fingerprint, or None if there is none.

    The entry loads its executable on demand.
    """
    store = current()
    if store is None:
        return None
    counts = statistics()
    if not readable():
        counts.misses += 1
        return None
    name = _name(fingerprint, devices)
    try:
        data = store.read(name)
        note_read(failed=False)
        if data is not None:
            read = decode(data)
            counts.hits += 1
            counts.bytes += len(data)
            return StoredEntry(read, name, store, devices)
    except (UnusableEntry, UntrustedEntry) as error:
        _reject(name, store, error)
    except OSError as error:
        note_read(failed=True)
        warn(
            f"{store} cannot be read: {error}. Programs are compiled instead; set another directory"
        )
    counts.misses += 1
    return None


def store_entry(fingerprint: str, devices: Sequence[jax.Device], entry: Entry) -> None:
    """Store an entry under a fingerprint. Failures are counted or cause a warning, not an error."""
    store = current()
    if store is None or not writable():
        return
    try:
        data = encode(entry)
        if not store.fits(len(data)):
            statistics().unstorable += 1
            return
        store.write(_name(fingerprint, devices), data)
    except UnstorableProgram:
        statistics().unstorable += 1
        return
    except OSError as error:
        stop_writing()
        warn(f"{store} cannot be written: {error}. Nothing more is stored; set another directory")
        return
    statistics().stored += 1
    statistics().bytes += len(data)


def _reject(name: str, store: object, error: Exception) -> None:
    statistics().rejected += 1
    warn(f"entry {name} of {store} is recompiled: {error}. No action is needed")


def _name(fingerprint: str, devices: Sequence[jax.Device]) -> str:
    return hashlib.sha256(f"{environment(devices)}\n{fingerprint}".encode()).hexdigest()
