# SPDX-License-Identifier: Apache-2.0
"""Growth rates of a server's memory, file descriptors and threads during a long load test."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.results import Figure
from benchmarks.serving.processes import Sample

# The number of seconds since the load test started, and a sample per process, keyed by process ID.
Moment = tuple[float, dict[int, Sample]]
_DETAIL_SECONDS = 10.0  # between two rows of the details
_HOUR = 3600.0


def figures(moments: Sequence[Moment], case: str, subject: str, note: str) -> list[Figure]:
    """Return how much the usage of each resource grows per hour.

    `moments` must not contain samples from the warm-up.
    """
    times = [elapsed for elapsed, _ in moments]
    rows = []
    for name, pids in _groups(moments).items():
        memory = [_total(each, pids, "anonymous_mib") for _, each in moments]
        rows.append(
            Figure(
                case=f"{case}: memory, {name}",
                subject=subject,
                number=round(slope(times, memory), 2),
                unit="MiB per hour",
                peak_mib=max(memory),
                note=note,
            )
        )
        for resource in ("descriptors", "threads"):
            counts = [_total(each, pids, resource) for _, each in moments]
            rows.append(
                Figure(
                    case=f"{case}: {resource}, {name}",
                    subject=subject,
                    number=round(slope(times, counts), 2),
                    unit=f"per hour; {min(counts):.0f} to {max(counts):.0f}",
                )
            )
    return rows


def details(moments: Sequence[Moment]) -> list[dict[str, Any]]:
    """Return rows for a results file: the resource usage of each process, at most every 10 s."""
    rows: list[dict[str, Any]] = []
    groups = _groups(moments)
    for elapsed, each in moments:
        if not rows or elapsed - rows[-1]["seconds"] >= _DETAIL_SECONDS:
            row: dict[str, Any] = {"seconds": round(elapsed, 1)}
            for name, pids in groups.items():
                row[name] = [
                    round(_total(each, pids, resource), 2)
                    for resource in ("anonymous_mib", "descriptors", "threads")
                ]
            rows.append(row)
    return rows


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the least-squares line through the samples, per hour."""
    return statistics.linear_regression(times, values).slope * _HOUR


def _groups(moments: Sequence[Moment]) -> dict[str, list[int]]:
    """Return the HTTP process, which is the oldest, and the others, which are workers."""
    pids = sorted({pid for _, each in moments for pid in each})
    return {"HTTP process": pids[:1], "workers": pids[1:]}


def _total(samples: dict[int, Sample], pids: Sequence[int], resource: str) -> float:
    return float(sum(getattr(samples[pid], resource) for pid in pids if pid in samples))
