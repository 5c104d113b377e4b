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
        "| | promised | CPU / plain | wall / plain | plain: CPU s | plain: wall s | CPU added | found |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        lines.append(
            f"| {figure.name} | {_promised(figure)} | {figure.cpu_ratio:.3f} | {figure.wall_ratio:.3f} "
            f"| {figure.plain_cpu:.4g} | {figure.plain_wall:.4g} | {figure.cpu_added * 1e3:.1f} ms "
            f"| {'; '.join(dict.fromkeys(figure.found))} |"
        )
    return "\n".join(lines)


def as_json(figures: Sequence[Figure]) -> str:
    """Return all figures."""
    return json.dumps([dataclasses.asdict(figure) for figure in figures], indent=1) + "\n"


def _promised(figure: Figure) -> str:
    if figure.most_added is not None:
        return f"+{figure.most_added * 1e3:.0f} ms"
    return "" if figure.most is None else f"{figure.most:.2f}"
