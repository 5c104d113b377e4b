# SPDX-License-Identifier: Apache-2.0
"""The figures as people and as programs read them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.static_training.cases import Case
from benchmarks.static_training.measure import Figure


def markdown(case: Case, figures: Sequence[Figure], *, threads: int) -> str:
    """Return the table of one case. A speed of 2 is half the time of the first peer."""
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
    """Return the table of what each peer's torch is made of."""
    lines = [
        "What each torch is made of",
        "",
        "| | torch | BLAS | oneDNN | kernels for | threads by |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {peer} | {made['version']} | {made['blas']} | {'yes' if made['onednn'] else 'no'} "
        f"| {made['capability']} | {made['threads_by']} |"
        for peer, made in made_of.items()
    ]
    return "\n".join(lines) + "\n"


def as_json(
    tables: Mapping[int, Mapping[str, Sequence[Figure]]],
    made_of: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return all figures, by the number of threads and the case, and the machine's description."""
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
    whole = {"machine": machine, "made_of": made_of, "threads": found}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"
