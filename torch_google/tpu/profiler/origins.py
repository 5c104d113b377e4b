# SPDX-License-Identifier: Apache-2.0
"""Finds the modules and source lines of the kernels in a trace.

While a trace is being recorded, C++ (`../csrc/origin.cpp`) records the origin of each operator, and
lists the runs of fused programs in order. The trace contains the kernels of each run. It does not
say which run they belong to, so this module matches kernels to runs by their order.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_google.tpu import _C
from torch_google.tpu.runtime import graph_origins, module_names


@dataclass(frozen=True)
class Origin:
    """The module and the source line of an operator; "" if they are unknown."""

    module: str = ""
    line: str = ""


# One run of a program: for each of its operators, the index of the operator's Origin, or a negative
# number if that is unknown.
Run = tuple[int, ...]


class Recording:
    """The runs of fused programs during a trace, which are available once the recording ends."""

    def __init__(self) -> None:
        self._origins: list[Origin] = []
        self._runs: dict[str, list[Run]] = defaultdict(list)

    def stop(self) -> None:
        """End the recording."""
        origins, runs = _C.stop_origins()
        self._origins = [_origin(*origin) for origin in origins]
        for program, operators in runs:
            self._runs[program].append(tuple(operators))

    def runs(self, program: str, kernels: Sequence[Mapping[str, Any]]) -> list[Sequence[Run]]:
        """Return the runs that each kernel may belong to, usually just one.

        `kernels` are the events of all kernels of the program in the trace. Identical runs are
        returned only once.
        """
        runs = self._runs.get(program, [])
        ranges = _matched(kernels, len(runs))
        distinct = {each: list(dict.fromkeys(runs[slice(*each)])) for each in set(ranges)}
        return [distinct[each] for each in ranges]

    def origin(self, run: Run, operator: int) -> Origin:
        """Return the origin of an operator, given its position in a run."""
        return Origin() if run[operator] < 0 else self._origins[run[operator]]


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record the origins of all operators in this block."""
    recording = Recording()
    module_names.start("profiler")
    _C.start_origins()
    try:
        yield recording
    finally:
        recording.stop()
        module_names.stop("profiler")


def of_graphs(module: str) -> list[list[Origin]]:
    """Return the origins of all operators in the graphs that an HLO module computes."""
    return [[_origin(*each) for each in graph] for graph in graph_origins.of_module(module)]


def _origin(module: str, file: str, line: int, is_backward: bool) -> Origin:
    prefix = "backward of " if is_backward else ""
    path, here = Path(file), Path.cwd()
    if path.is_relative_to(here):
        path = path.relative_to(here)
    return Origin(module and f"{prefix}{module}", file and f"{prefix}{path}:{line}")


def _matched(kernels: Sequence[Mapping[str, Any]], runs: int) -> list[tuple[int, int]]:
    """Return the range of runs that each kernel may belong to."""
    ids = [kernel["args"].get("run_id") for kernel in kernels]
    if None in ids:
        return _by_count(kernels, runs)
    for bits in (0, 32):  # JAX counts in 32 bits, which may overflow
        numbers = [int(run) % 2**bits if bits else int(run) for run in ids]
        first, last = min(numbers), max(numbers)
        if len(set(numbers)) == runs == last - first + 1:
            return [(number - first, number - first + 1) for number in numbers]
    # The trace contains the runs of several executables, or is missing some runs.
    return [(0, runs)] * len(kernels)


def _by_count(kernels: Sequence[Mapping[str, Any]], runs: int) -> list[tuple[int, int]]:
    """Match kernels without run ids to runs, by the order in which they start.

    If there are several devices, or if the runs cannot all have executed each kernel equally often,
    every kernel may belong to any run. Runs that overlap in time cannot be told apart, so a kernel
    of one may belong to any of them.
    """
    unknown = [(0, runs)] * len(kernels)
    if len({kernel.get("pid") for kernel in kernels}) != 1:
        return unknown  # several devices
    indices: dict[str, list[int]] = defaultdict(list)
    for index in sorted(range(len(kernels)), key=lambda index: float(kernels[index]["ts"])):
        indices[kernels[index]["args"]["hlo_op"]].append(index)
    if not runs or any(len(same) % runs for same in indices.values()):
        return unknown
    numbers = {
        index: count * runs // len(same)
        for same in indices.values()
        for count, index in enumerate(same)
    }
    begins, ends = [math.inf] * runs, [-math.inf] * runs
    for index, number in numbers.items():
        begin = kernels[index]["ts"]
        begins[number] = min(begins[number], begin)
        ends[number] = max(ends[number], begin + kernels[index].get("dur", 0))
    # Runs that overlap in time share a range. A run that begins after all earlier runs have ended
    # starts a new range.
    latest = itertools.accumulate(ends, max, initial=-math.inf)
    firsts = [n for n, (begin, end) in enumerate(zip(begins, latest, strict=False)) if begin >= end]
    ranges = list(itertools.pairwise([*firsts, runs]))
    return [ranges[bisect(firsts, numbers[index]) - 1] for index in range(len(kernels))]
