# SPDX-License-Identifier: Apache-2.0
"""Figures as a Markdown table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from benchmarks.google3.row import Figure


def markdown(figures: Sequence[Figure]) -> str:
    """Return the table."""
    lines = [
        "| | promised | CPU / plain | wall / plain | plain: CPU s | plain: wall s |",
        "|---|---|---|---|---|---|",
    ]
    for figure in figures:
        promised = "" if figure.most is None else f"{figure.most:.2f}"
        lines.append(
            f"| {figure.name} | {promised} | {figure.cpu_ratio:.3f} | {figure.wall_ratio:.3f} "
            f"| {figure.plain_cpu:.4g} | {figure.plain_wall:.4g} |"
        )
    return "\n".join(lines)


def as_json(figures: Sequence[Figure]) -> str:
    """Return all figures."""
    return json.dumps([dataclasses.asdict(figure) for figure in figures], indent=1) + "\n"
