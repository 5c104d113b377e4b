# SPDX-License-Identifier: Apache-2.0
"""Measure cold and warm starts of packed programs, and the size of their caches."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Figure

IMPORT = "import torch"
FIRST, WARM = "First start, empty cache", "Warm start"
COPY = "cp -r"
_MB = 1e6


class RunFailed(RuntimeError):
    """A measured program failed. The message contains the last line of its standard error."""


@dataclass(frozen=True)
class Cost:
    """Wall and CPU times in seconds of a process and its children, and the peak memory in MiB."""

    wall: float
    cpu: float
    peak_mib: float


def run(command: Sequence[str | Path], env: Mapping[str, str]) -> Cost:
    """Run a command and measure it. Raises RunFailed if its exit status is not 0."""
    start = time.monotonic()
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines = process.stderr.read().strip().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise RunFailed(f"{command[0]}: {lines[-1] if lines else f'status {process.returncode}'}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def import_torch(par: Path, cache: Path) -> Cost:
    """Measure `import torch` in a packed program that unpacks into `cache`."""
    env = {"PAR_CACHE_DIR": str(cache), "PAR_INTERPRETER": "1"}
    return run([par.absolute(), "-c", IMPORT], env)


def size(path: Path) -> int:
    """Return the size in bytes of a file, or of all files under a directory."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())


def starts(name: str, par: Path, work: Path, rounds: int) -> list[Figure]:
    """Measure cold and warm starts of a program, and the cost of copying its unpacked files."""
    costs: dict[str, list[Cost]] = {FIRST: [], WARM: [], COPY: []}
    cache, copy = work / "cache", work / "copy"
    unpacked = 0
    for _ in range(rounds):
        for directory in (cache, copy):
            shutil.rmtree(directory, ignore_errors=True)
        cache.mkdir(mode=0o700)
        costs[FIRST].append(import_torch(par, cache))
        costs[WARM].append(import_torch(par, cache))
        costs[COPY].append(run(["/bin/cp", "-r", cache, copy], {}))
        unpacked = size(cache)
    for directory in (cache, copy):
        shutil.rmtree(directory)
    return [
        Figure(case="Size of the file", subject=name, number=_megabytes(size(par)), unit="MB"),
        Figure(case="Unpacked files", subject=name, number=_megabytes(unpacked), unit="MB"),
        _figure(FIRST, name, costs[FIRST], peer=COPY, others=costs[COPY]),
        _figure("Copying the unpacked files", name, costs[COPY]),
        _figure(WARM, name, costs[WARM]),
    ]


def shared(first: tuple[str, Path], second: tuple[str, Path], work: Path) -> list[Figure]:
    """Measure the space that the program `second` adds to the cache of the program `first`."""
    cache = work / "cache"
    cache.mkdir(mode=0o700)
    import_torch(first[1], cache)
    before = size(cache)
    import_torch(second[1], cache)
    after = size(cache)
    shutil.rmtree(cache)
    return [
        Figure(
            case=f"Added to the cache of {first[0]}",
            subject=second[0],
            number=_megabytes(after - before),
            unit="MB",
        )
    ]


def _figure(
    case: str,
    subject: str,
    costs: Sequence[Cost],
    *,
    peer: str | None = None,
    others: Sequence[Cost] = (),
) -> Figure:
    def ratio(pairs: Iterable[tuple[float, float]]) -> float | None:
        return round(statistics.median(a / b for a, b in pairs), 3) if others else None

    return Figure(
        case=case,
        subject=subject,
        peer=peer,
        runs=len(costs),
        cpu_seconds=round(statistics.median(cost.cpu for cost in costs), 3),
        wall_seconds=round(statistics.median(cost.wall for cost in costs), 3),
        cpu_ratio=ratio((a.cpu, b.cpu) for a, b in zip(costs, others, strict=False)),
        wall_ratio=ratio((a.wall, b.wall) for a, b in zip(costs, others, strict=False)),
        peak_mib=round(statistics.median(cost.peak_mib for cost in costs)),
    )


def _megabytes(count: int) -> float:
    return round(count / _MB, 1)
