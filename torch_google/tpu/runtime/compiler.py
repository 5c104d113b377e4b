# SPDX-License-Identifier: Apache-2.0
"""The only module that calls XLA's compiler and the compile cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import jax

from torch_google.tpu import _C, cache
from torch_google.tpu.program import compile_safely
from torch_google.tpu.runtime import (
    errors,
    interruptions,
    metrics,
    platform,
    program_eviction,
    program_limit,
)
from torch_google.tpu.runtime.cache_miss import CacheMissError

# Either the index of a tpu device or the devices of a mesh.
Devices: TypeAlias = int | Sequence[jax.Device]


def executable(
    name: str, lower: Callable[[], jax.stages.Lowered], *, fingerprint: str, on: Devices
) -> jax.stages.Compiled:
    """Return the executable of a program, and call `lower` only if the program must be compiled.

    `fingerprint` identifies the program across processes. Raises CacheMissError if the program
    would have to be compiled in cache-only mode.
    """
    stored = find_entry(fingerprint, on)
    entry = stored and load_entry(stored)
    if entry is not None and entry.executable is not None:
        return entry.executable
    return compiled(name, lower, fingerprint=fingerprint, on=on)


def executable_of(name: str, lowered: jax.stages.Lowered, *, on: Devices) -> jax.stages.Compiled:
    """Return the executable of a lowered program. A hash of its text is the cache key.

    Raises CacheMissError if the program would have to be compiled in cache-only mode.
    """
    fingerprint = f"module {hashlib.sha256(lowered.as_text().encode()).hexdigest()}"
    return executable(name, lambda: lowered, fingerprint=fingerprint, on=on)


def find_entry(fingerprint: str, on: Devices) -> cache.StoredEntry | None:
    """Return the compile cache's entry for a program, or None if there is none."""
    return cache.find_entry(fingerprint, _devices(on))


def load_entry(stored: cache.StoredEntry) -> cache.Entry | None:
    """Load the executable of a cache entry. Return None if that fails."""
    program_eviction.BUDGET.look()
    program_limit.LIMIT.make_room()
    entry = stored.loaded()
    if entry is not None and entry.executable is not None:
        program_limit.LIMIT.add(entry.executable)
    return entry


def store_note(fingerprint: str, on: Devices, note: Any) -> None:
    """Store a note (JSON metadata) in the compile cache, without an executable."""
    cache.store_entry(fingerprint, _devices(on), cache.Entry(None, note))


def compiled(
    name: str,
    lower: Callable[[], jax.stages.Lowered],
    *,
    fingerprint: str,
    on: Devices,
    note: Any = None,
) -> jax.stages.Compiled:
    """Compile a program, store it in the compile cache, and return its executable.

    `fingerprint` identifies the program across processes. `note` is stored with the program; a
    callable note is called with the executable, and its result is stored. Raises CacheMissError in
    cache-only mode, and torch.OutOfMemoryError if the program does not fit on the device.
    """
    check_allowed(name, fingerprint)
    program_eviction.BUDGET.look()
    program_limit.LIMIT.make_room()
    with interruptions.delayed(), metrics.compiling():
        program = _compile(name, lower())
    program_limit.LIMIT.add(program)
    if callable(note):
        note = note(program)
    cache.store_entry(fingerprint, _devices(on), cache.Entry(program, note))
    return program


def scratch(executable: jax.stages.Compiled) -> int:
    """Return the bytes of scratch memory that a program needs, excluding inputs and results.

    Returns 0 if the platform does not report the size.
    """
    size = _scratch.get(executable)
    if size is None:
        stats = _memory(executable)
        size = _scratch[executable] = 0 if stats is None else int(stats.temp_size_in_bytes)
    return size


def tell_scratch(executable: jax.stages.Compiled, scratch: int) -> None:
    """Cache the result of `scratch` in advance, because XLA takes milliseconds to compute it."""
    _scratch[executable] = scratch


def needs(executable: jax.stages.Compiled) -> int:
    """Return the bytes that a program needs for its scratch memory and results."""
    stats = _memory(executable)
    if stats is None:
        return 0
    return int(stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes)


def check_allowed(name: str, fingerprint: str) -> None:
    """Raise CacheMissError if cache-only mode is on."""
    if _C.cache_only():
        raise CacheMissError(name, fingerprint)


def _compile(name: str, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    try:
        return compile_safely(lowered)
    except jax.errors.JaxRuntimeError as error:
        errors.explain(name, error)


_scratch: WeakKeyDictionary[jax.stages.Compiled, int] = WeakKeyDictionary()


def _devices(on: Devices) -> Sequence[jax.Device]:
    return [platform.device(on)] if isinstance(on, int) else on


def _memory(executable: jax.stages.Compiled) -> Any:
    try:
        return executable.memory_analysis()
    except (NotImplementedError, jax.errors.JaxRuntimeError):
        # Some platforms do not report the memory that a program needs.
        return None
