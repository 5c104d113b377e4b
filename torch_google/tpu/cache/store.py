# SPDX-License-Identifier: Apache-2.0
"""Programs in and out of the compile cache of this process, with what is kept beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import jax

from torch_google.tpu.cache.entry import Entry, Unstorable, Unusable, decode, encode
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


def remembered(fingerprint: str, devices: Sequence[jax.Device]) -> Entry | None:
    """Return what was kept under a fingerprint, if it is there and can be used."""
    place = current()
    if place is None:
        return None
    counts = statistics()
    if not readable():
        counts.misses += 1
        return None
    name = _name(fingerprint, devices)
    try:
        data = place.read(name)
        note_read(failed=False)
        if data is not None:
            entry = decode(data, devices)
            counts.hits += 1
            counts.bytes += len(data)
            return entry
    except Unusable as error:
        counts.rejected += 1
        warn(f"entry {name} of {place} is compiled anew: {error}. Nothing is to be done")
    except OSError as error:
        note_read(failed=True)
        warn(f"{place} cannot be read: {error}. Programs are compiled; give another directory")
    counts.misses += 1
    return None


def remember(fingerprint: str, devices: Sequence[jax.Device], entry: Entry) -> None:
    """Keep an entry under a fingerprint, where that is possible."""
    place = current()
    if place is None or not writable():
        return
    try:
        data = encode(entry)
        if not place.fits(len(data)):
            statistics().unstorable += 1
            return
        place.write(_name(fingerprint, devices), data)
    except Unstorable:
        statistics().unstorable += 1
        return
    except OSError as error:
        stop_writing()
        warn(f"{place} cannot be written: {error}. Nothing more is kept; give another directory")
        return
    statistics().stored += 1
    statistics().bytes += len(data)


def _name(fingerprint: str, devices: Sequence[jax.Device]) -> str:
    return hashlib.sha256(f"{environment(devices)}\n{fingerprint}".encode()).hexdigest()
