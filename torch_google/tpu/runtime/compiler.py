# SPDX-License-Identifier: Apache-2.0
"""Where the runtime has its programs compiled: the one door to XLA's compiler, and to its cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import jax

from torch_google.tpu import _C, cache
from torch_google.tpu.runtime import metrics, platform, program_eviction, program_limit
from torch_google.tpu.runtime.cache_miss import CacheMissError


def executable(
    name: str, lower: Callable[[], jax.stages.Lowered], *, fingerprint: str, device: int
) -> jax.stages.Compiled:
    """Return the executable of a program for a device; `lower` is called where it has to be made.

    `fingerprint` says the same for the same program in every process. Raises CacheMissError where a
    program has to be made and the thread may not.
    """
    found = kept(fingerprint, device)
    entry = found and loaded(found)
    if entry is not None and entry.executable is not None:
        return entry.executable
    return compiled(name, lower, fingerprint=fingerprint, device=device)


def executable_of(name: str, lowered: jax.stages.Lowered, *, device: int) -> jax.stages.Compiled:
    """Return the executable of a lowered program, which its text tells from every other.

    Raises CacheMissError where it has to be made and the thread may not.
    """
    fingerprint = f"module {hashlib.sha256(lowered.as_text().encode()).hexdigest()}"
    return executable(name, lambda: lowered, fingerprint=fingerprint, device=device)


def kept(fingerprint: str, device: int) -> cache.StoredEntry | None:
    """Return what the compile cache has of a program. Every new one is looked for here first."""
    return cache.found(fingerprint, [platform.device(device)])


def loaded(found: cache.StoredEntry) -> cache.Entry | None:
    """Return what the compile cache has, with its executable; None where it does not load."""
    program_eviction.BUDGET.look()
    program_limit.LIMIT.make_room()
    entry = found.loaded()
    if entry is not None and entry.executable is not None:
        program_limit.LIMIT.add(entry.executable)
    return entry


def keep(fingerprint: str, device: int, note: Any) -> None:
    """Put a note without an executable into the compile cache."""
    cache.remember(fingerprint, [platform.device(device)], cache.Entry(None, note))


def compiled(
    name: str,
    lower: Callable[[], jax.stages.Lowered],
    *,
    fingerprint: str,
    device: int,
    note: Any = None,
) -> jax.stages.Compiled:
    """Return the executable of a program that is not in the compile cache, and put it there.

    `fingerprint` says the same for the same program in every process; `note` is kept with it, or what
    it makes of the executable. Raises CacheMissError where the thread may not compile.
    """
    check_allowed(name, fingerprint)
    program_eviction.BUDGET.look()
    program_limit.LIMIT.make_room()
    with metrics.compiling():
        made = lower().compile()
    program_limit.LIMIT.add(made)
    if callable(note):
        note = note(made)
    cache.remember(fingerprint, [platform.device(device)], cache.Entry(made, note))
    return made


def scratch(executable: jax.stages.Compiled) -> int:
    """Return the bytes that a program needs while it runs, beside inputs and results.

    0 where the platform does not say.
    """
    told = _scratch.get(executable)
    if told is None:
        known = _memory(executable)
        told = _scratch[executable] = 0 if known is None else int(known.temp_size_in_bytes)
    return told


def tell_scratch(executable: jax.stages.Compiled, scratch: int) -> None:
    """Say what `scratch` will return: XLA takes milliseconds to tell it of a large program."""
    _scratch[executable] = scratch


def needs(executable: jax.stages.Compiled) -> int:
    """Return the bytes that a program needs beside its inputs: for results, too."""
    known = _memory(executable)
    if known is None:
        return 0
    return int(known.temp_size_in_bytes + known.output_size_in_bytes - known.alias_size_in_bytes)


def check_allowed(name: str, fingerprint: str) -> None:
    """Raise CacheMissError in cache-only mode."""
    if _C.cache_only():
        raise CacheMissError(name, fingerprint)


_scratch: WeakKeyDictionary[jax.stages.Compiled, int] = WeakKeyDictionary()


def _memory(executable: jax.stages.Compiled) -> Any:
    try:
        return executable.memory_analysis()
    except (NotImplementedError, jax.errors.JaxRuntimeError):  # a platform that does not know
        return None
