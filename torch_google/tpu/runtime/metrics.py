# SPDX-License-Identifier: Apache-2.0
"""What the runtime has done so far, in numbers."""

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
    """Counts since the start or the last reset. `compile_seconds` is wall time.

    `misses` are calls that made a program, `forgotten` the programs that gave way to others (see
    `mappings`); `host_shapes` those whose results' shapes depend on
    values, which need none. `fallbacks` counts operators that ran on the CPU, by name; `graphs` what
    happened to graphs of torch.compile's: `compile`, `call`, `evict` (a program gave way to another),
    `copy` (of an array that could not be donated), and `pad` (an argument was copied to the length of
    its bucket; `pad_compile`, with a program for its sizes). `exact` counts, by reason, the graphs
    with symbols that have one program for each set of sizes.

    A trace of the fused mode is a hit where its program is there, and a miss where it is new; `served`
    counts those that ran operator by operator while their program was compiled. `flushes` says how
    often a trace ended, by reason.

    `disk_hits` and `disk_misses` are lookups of the compile cache, `disk_bytes` what was read and
    written there. A hit is no compilation.
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


_compiles = [0, 0.0]
_host_shapes = [0]
_fallbacks: Counter[str] = Counter()
_graphs: Counter[str] = Counter()
_exact: Counter[str] = Counter()
# Programs are compiled by several threads.
_lock = threading.Lock()


def metrics() -> Metrics:
    """Return the counts of all threads and devices; `live_bytes` is of the current device."""
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
    )


def reset_metrics() -> None:
    """Count from zero again."""
    _C.reset_counts()
    cache.reset_statistics()
    with _lock:
        _compiles[:] = [0, 0.0]
    _host_shapes[0] = 0
    _fallbacks.clear()
    _graphs.clear()
    _exact.clear()


@contextmanager
def compiling() -> Iterator[None]:
    """Count one compilation, and its time."""
    begin = time.perf_counter()
    yield
    with _lock:
        _compiles[0] += 1
        _compiles[1] += time.perf_counter() - begin


def host_shapes() -> None:
    """Count one operator whose result's shape depended on values."""
    _host_shapes[0] += 1


def fallback(name: str) -> None:
    """Count one operator that ran on the CPU."""
    _fallbacks[name] += 1


def graph(event: str) -> None:
    """Count what happened to a graph of torch.compile's."""
    _graphs[event] += 1


def exact(reason: str) -> None:
    """Count one graph with symbols that runs on arrays of exactly its sizes."""
    _exact[reason] += 1
