# SPDX-License-Identifier: Apache-2.0
"""The figures as people and as programs read them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence

from benchmarks.static_rebuild.measure import Figure

HEAD = (
    "| changed | in | wall s | goal s | CPU s of actions | CPU s of Bazel | peak MiB of actions "
    "| of one process | ran |\n|---|---|---:|---:|---:|---:|---:|---:|---|"
)


def row(figure: Figure) -> str:
    """Return a row of the table."""
    goal = "" if figure.goal is None else f"{figure.goal:g}"
    ran = ", ".join(f"{name} {count}" for name, count in figure.runners.items())
    return (
        f"| {figure.title} | {figure.way} | {figure.wall:.1f} | {goal} | {figure.cpu:.1f} "
        f"| {figure.bazel_cpu:.1f} | {figure.together:.0f} | {figure.largest:.0f} | {ran} |"
    )


def as_json(figures: Sequence[Figure]) -> str:
    """Return all figures and the machine's description."""
    machine = {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg(),
    }
    rows = [dataclasses.asdict(figure) for figure in figures]
    return json.dumps({"machine": machine, "figures": rows}, indent=1, sort_keys=True) + "\n"
