# SPDX-License-Identifier: Apache-2.0
"""The figures as people and as programs read them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping, Sequence

from benchmarks.tpu_eager.cases import CASES
from benchmarks.tpu_eager.first_steps import FirstSteps
from benchmarks.tpu_eager.measure import Figure


def markdown(name: str, figures: Sequence[Figure], *, threads: int) -> str:
    """Return the table of one case."""
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
    """Return the table of fresh processes."""
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


def as_json(
    tables: Mapping[int, Mapping[str, Sequence[Figure]]],
    starts: Mapping[str, Sequence[FirstSteps]],
) -> str:
    """Return all figures, by the number of threads, and the machine's description."""
    machine = {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
    }
    found = {
        str(threads): {
            name: [dataclasses.asdict(figure) for figure in figures]
            for name, figures in table.items()
        }
        for threads, table in tables.items()
    }
    starting = {case: [dataclasses.asdict(row) for row in rows] for case, rows in starts.items()}
    whole = {"machine": machine, "threads": found, "first_steps": starting}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"
