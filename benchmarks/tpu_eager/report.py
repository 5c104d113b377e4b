# SPDX-License-Identifier: Apache-2.0
"""Format the measurements as Markdown tables and as benchmark results."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results import Figure as Result
from benchmarks.tpu_eager.cases import CASES
from benchmarks.tpu_eager.first_steps import WARM_RUNS, FirstSteps
from benchmarks.tpu_eager.measure import Figure


def markdown(name: str, figures: Sequence[Figure], *, threads: int) -> str:
    """Return the Markdown table for one case."""
    case = CASES[name]
    unit = case.unit_name
    base = case.peers[0]
    lines = [
        f"{case.title}; threads: {threads}",
        "",
        f"| | CPU {unit} | CPU / {base} | lowest to highest process | wall {unit} | value |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for figure in figures:
        if figure.cpu is None or figure.wall is None:
            lines.append(f"| {figure.peer} | {figure.error} | | | | |")
            continue
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        between = ""
        if figure.lowest is not None and figure.highest is not None:
            between = f"{figure.lowest:.2f} to {figure.highest:.2f}"
        value = "" if figure.value is None else f"{figure.value:.4g}"
        lines.append(
            f"| {figure.peer} | {figure.cpu / case.unit:.2f} | {ratio} "
            f"| {between} | {figure.wall / case.unit:.2f} | {value} |"
        )
    return "\n".join(lines) + "\n"


def first_steps(rows: Sequence[FirstSteps], *, case: str, threads: int) -> str:
    """Return a Markdown table that compares first steps with a cold and a warm cache."""
    lines = [
        f"{CASES[case].title}: from the first tensor to the end of step 2; threads: {threads}",
        "",
        "| | cold CPU s | warm CPU s | warm / cold | cold wall s | warm wall s | warm / cold |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.peer} | {row.cold_cpu:.2f} | {row.warm_cpu:.2f} | {row.warm_cpu / row.cold_cpu:.2f} "
        f"| {row.cold_wall:.2f} | {row.warm_wall:.2f} | {row.warm_wall / row.cold_wall:.2f} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def results(name: str, figures: Sequence[Figure], *, threads: int, runs: int) -> list[Result]:
    """Return the figures for one case as benchmark results. Programs that failed are omitted."""
    case = CASES[name]
    return [
        Result(
            case=case.title,
            subject=figure.peer,
            peer=case.peers[0],
            threads=threads,
            runs=runs,
            cpu_seconds=figure.cpu,
            cpu_ratio=figure.ratio,
            wall_seconds=figure.wall,
            note=None
            if figure.lowest is None
            else f"processes from {figure.lowest:.2f} to {figure.highest:.2f}",
        )
        for figure in figures
        if figure.cpu is not None
    ]


def first_step_results(case: str, rows: Sequence[FirstSteps], *, threads: int) -> list[Result]:
    """Return benchmark results that compare first steps with a warm and a cold cache."""
    return [
        Result(
            case=f"{CASES[case].title}: start to the end of step 2, warm compile cache",
            subject=row.peer,
            peer="the same, cold",
            threads=threads,
            runs=WARM_RUNS,
            cpu_seconds=row.warm_cpu,
            cpu_ratio=row.warm_cpu / row.cold_cpu,
            wall_seconds=row.warm_wall,
            wall_ratio=row.warm_wall / row.cold_wall,
        )
        for row in rows
    ]
