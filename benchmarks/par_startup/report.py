# SPDX-License-Identifier: Apache-2.0
"""Format the figures as a Markdown table and as benchmark results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.par_startup.measure import Summary
from benchmarks.results import Figure


def markdown(title: str, summaries: Sequence[Summary], *, base: str, places: int = 2) -> str:
    """Return the figures as a Markdown table, with times rounded to `places` decimal places."""
    rounds = summaries[0].rounds
    lines = [
        f"{title} (medians of {rounds} interleaved rounds)",
        "",
        f"| | CPU s | CPU / {base} | wall s | peak MiB |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.name} | {row.cpu:.{places}f} | {row.cpu_ratio:.2f} | {row.wall:.{places}f} "
        f"| {row.memory:.0f} |"
        for row in summaries
    ]
    return "\n".join(lines) + "\n"


def starts(tables: Mapping[str, Sequence[Summary]], *, base: str) -> str:
    """Return a Markdown table with a row for each program and each way to start it."""
    rounds = next(iter(tables.values()))[0].rounds
    lines = [
        f"Starts through a door and as a child (medians of {rounds} interleaved rounds)",
        "",
        f"| start | | CPU s | CPU / {base} | peak MiB |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {kind} | {row.name} | {row.cpu:.2f} | {row.cpu_ratio:.2f} | {row.memory:.0f} |"
        for kind, summaries in tables.items()
        for row in summaries
    ]
    return "\n".join(lines) + "\n"


def figures(case: str, summaries: Sequence[Summary], *, base: str) -> list[Figure]:
    """Return the figures as benchmark results."""
    return [
        Figure(
            case=case,
            subject=row.name,
            peer=base,
            runs=row.rounds,
            cpu_seconds=row.cpu,
            cpu_ratio=row.cpu_ratio,
            wall_seconds=row.wall,
            peak_mib=row.memory,
        )
        for row in summaries
    ]
