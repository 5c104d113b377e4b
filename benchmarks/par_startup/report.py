# SPDX-License-Identifier: Apache-2.0
"""The figures as people and as programs read them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping, Sequence

from benchmarks.par_startup.measure import Summary


def markdown(title: str, summaries: Sequence[Summary], *, base: str, places: int = 2) -> str:
    """`places` is how many decimals a second has."""
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


def as_json(
    tables: Mapping[str, Sequence[Summary]], *, releases: Mapping[str, str] | None = None
) -> str:
    """`releases` has the torch of the peers that were asked."""
    machine = {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
    }
    rows = {title: [dataclasses.asdict(row) for row in table] for title, table in tables.items()}
    found = {"machine": machine, "releases": dict(releases or {}), "tables": rows}
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
