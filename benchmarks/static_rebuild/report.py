# SPDX-License-Identifier: Apache-2.0
"""Format the figures as a Markdown table and as benchmark results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchmarks.results import Figure as Result
from benchmarks.static_rebuild.measure import Figure

HEAD = (
    "| changed | in | wall s | goal s | CPU s of actions | CPU s of Bazel | peak MiB of actions "
    "| of one process | ran |\n|---|---|---:|---:|---:|---:|---:|---:|---|"
)


def row(figure: Figure) -> str:
    """Return a figure as a row of the Markdown table."""
    goal = "" if figure.goal is None else f"{figure.goal:g}"
    ran = ", ".join(f"{name} {count}" for name, count in figure.runners.items())
    return (
        f"| {figure.title} | {figure.way} | {figure.wall:.1f} | {goal} | {figure.cpu:.1f} "
        f"| {figure.bazel_cpu:.1f} | {figure.together:.0f} | {figure.largest:.0f} | {ran} |"
    )


def results(figures: Sequence[Figure]) -> list[Result]:
    """Return the figures as benchmark results."""
    return [
        Result(
            case=f"Edited: {figure.title}" if figure.way else figure.title,
            subject=figure.way or "the whole build",
            runs=len(figure.walls),
            wall_seconds=figure.wall,
            cpu_seconds=figure.cpu,
            peak_mib=figure.together,
        )
        for figure in figures
    ]


def details(figures: Sequence[Figure]) -> dict[str, object]:
    """Map the name of each edit to the fields of its `Figure`."""
    return {figure.name: dataclasses.asdict(figure) for figure in figures}
