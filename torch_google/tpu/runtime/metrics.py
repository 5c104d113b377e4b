# SPDX-License-Identifier: Apache-2.0
"""Counters of operator calls, compilations and cache lookups."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_google.tpu import _C, cache
from torch_google.tpu.runtime.accelerator import accelerator


@dataclass(frozen=True)
class Metrics:
    """Counts since the process started or the counters were last reset.

    `operators`: operator calls. `hits`, `misses`: the calls that found a compiled program, and
    those that did not. `forgotten`: evicted programs (see program_limit.py and
    program_eviction.py). `compiles`, `compile_seconds`: the number of compilations, and their wall
    time.

    `cpu_kernels`: calls that ran with torch's CPU kernels (see cpu_kernel_setting.py); they are
    neither hits nor misses. `in_place`: calls that wrote to some elements of a storage without
    copying the others, by a donating program or by a CPU kernel. `host_shapes`: calls whose result
    shapes depend on values; such calls run without a program. `fallbacks`: calls that fell back to
    the CPU, by operator name.

    `graphs`: events in torch.compile graphs. These are `compile`, `call`, `evict`, `copy` (an array
    could not be donated), `pad` (an argument was padded to the length of its bucket), `pad_compile`
    (a padding program was compiled), `cpu_kernels` (a call ran on CPU kernels) and
    `cpu_kernels_refused` (a graph whose sizes change cannot run on them). `exact`: graphs with
    symbolic sizes, and operators, that need one program per set of sizes, by reason.

    `padded`: events of operators whose sizes keep changing (see size_bucket_setting.py). These are
    `compile` (a program for padded arrays was compiled or loaded), `sizes` (such a program got a
    new set of sizes) and `storage` (a storage was lengthened).

    `fused_hits`, `fused_misses`: traces whose program was ready, and new traces. `fused_served`:
    traces that ran operator by operator while their program was being compiled. `flushes`: trace
    flushes, by reason.

    `disk_hits`, `disk_misses`: lookups in the compile cache. `disk_bytes`: bytes read from and
    written to the cache. A disk hit does not count as a compilation.
    """

    operators: int
    hits: int
    misses: int
    forgotten: int
    compiles: int
    compile_seconds: float
    host_shapes: int
    fallbacks: dict[str, int]
    graphs: dict[str, int]
    live_bytes: int
    fused_hits: int
    fused_misses: int
    fused_served: int
    flushes: dict[str, int]
    disk_hits: int
    disk_misses: int
    disk_bytes: int
    exact: dict[str, int]
    cpu_kernels: int
    in_place: int
    padded: dict[str, int]


_compiles = [0, 0.0]
_host_shapes = [0]
_fallbacks: Counter[str] = Counter()
_graphs: Counter[str] = Counter()
_exact: Counter[str] = Counter()
_padded: Counter[str] = Counter()
# The counters need a lock, because several threads compile programs.
_lock = threading.Lock()


def metrics() -> Metrics:
    """Return the counts of all threads and devices. `live_bytes` covers only the current device."""
    operators, hits, misses, forgotten = _C.counts()
    disk = cache.statistics()
    live = int(accelerator.memory_allocated()) if _C.started() else 0
    return Metrics(
        operators,
        hits,
        misses,
        forgotten,
        int(_compiles[0]),
        _compiles[1],
        _host_shapes[0],
        dict(_fallbacks),
        dict(_graphs),
        live,
        *_C.fused_counts(),
        _C.flushes(),
        disk.hits,
        disk.misses,
        disk.bytes,
        dict(_exact),
        _C.cpu_kernel_calls(),
        _C.in_place_writes(),
        dict(_padded),
    )


def reset_metrics() -> None:
    """Reset all counters."""
    _C.reset_counts()
    cache.reset_statistics()
    with _lock:
        _compiles[:] = [0, 0.0]
    _host_shapes[0] = 0
    _fallbacks.clear()
    _graphs.clear()
    _exact.clear()
    _padded.clear()


@contextmanager
def compiling() -> Iterator[None]:
    """Count one compilation, and add its duration to the total."""
    begin = time.perf_counter()
    yield
    with _lock:
        _compiles[0] += 1
        _compiles[1] += time.perf_counter() - begin


def host_shapes() -> None:
    """Count one call to an operator whose result shapes depend on values."""
    _host_shapes[0] += 1


def fallback(name: str) -> None:
    """Count one operator call that fell back to the CPU."""
    _fallbacks[name] += 1


def graph(event: str) -> None:
    """Count an event in a torch.compile graph."""
    _graphs[event] += 1


def exact(reason: str) -> None:
    """Count one graph with symbolic sizes, or operator, that needs a program per set of sizes."""
    _exact[reason] += 1


def padded(event: str) -> None:
    """Count an event of operators on padded arrays."""
    _padded[event] += 1
