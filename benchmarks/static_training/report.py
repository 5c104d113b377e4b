# SPDX-License-Identifier: Apache-2.0
"""Format the figures as a Markdown table and as benchmark results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.results import Figure as Result
from benchmarks.static_training.cases import Case
from benchmarks.static_training.measure import Figure


def markdown(case: Case, figures: Sequence[Figure], *, threads: int) -> str:
    """Return the Markdown table for one case. A speed of 2 means half the first build's time."""
    base, rounds = figures[0].peer, figures[0].rounds
    lines = [
        f"{case.title}, one {case.unit}; threads: {threads} "
        f"(medians of {rounds} interleaved processes each)",
        "",
        f"| | CPU ms | speed by CPU / {base} | wall ms | speed by wall / {base} | loss |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.peer} | {row.cpu * 1e3:.1f} | {row.speed:.2f} "
        f"| {row.wall * 1e3:.1f} | {row.wall_speed:.2f} | {row.loss:.4f} |"
        for row in figures
    ]
    return "\n".join(lines) + "\n"


def makes(made_of: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a Markdown table of each torch build's settings."""
    lines = [
        "Build settings of each torch",
        "",
        "| | torch | BLAS | oneDNN | kernels for | threads by |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {peer} | {build['version']} | {build['blas']} | {'yes' if build['onednn'] else 'no'} "
        f"| {build['capability']} | {build['threads_by']} |"
        for peer, build in made_of.items()
    ]
    return "\n".join(lines) + "\n"


def results(case: Case, figures: Sequence[Figure], *, threads: int) -> list[Result]:
    """Return the figures as benchmark results. A ratio of 0.5 means twice as fast."""
    return [
        Result(
            case=f"{case.title}, one {case.unit}",
            subject=row.peer,
            peer=figures[0].peer,
            threads=threads,
            runs=row.rounds,
            cpu_seconds=row.cpu,
            cpu_ratio=1 / row.speed,
            wall_seconds=row.wall,
            wall_ratio=1 / row.wall_speed,
        )
        for row in figures
    ]
