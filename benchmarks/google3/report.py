# SPDX-License-Identifier: Apache-2.0
"""Format the measurements as a Markdown table and as benchmark results."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.google3.row import Figure
from benchmarks.results import Figure as Result


def markdown(figures: Sequence[Figure]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| | promised | CPU / plain | wall / plain | plain: CPU s | plain: wall s | CPU added | found |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        lines.append(
            f"| {figure.name} | {_promised(figure)} | {figure.cpu_ratio:.3f} | {figure.wall_ratio:.3f} "
            f"| {figure.plain_cpu:.4g} | {figure.plain_wall:.4g} | {figure.cpu_added * 1e3:.1f} ms "
            f"| {'; '.join(dict.fromkeys(figure.descriptions))} |"
        )
    return "\n".join(lines)


def results(figures: Sequence[Figure], *, rounds: int) -> list[Result]:
    """Return two results for each figure: torch_google's ratios, and the plain code's times."""
    return [result for figure in figures for result in _pair(figure, rounds)]


def _pair(figure: Figure, rounds: int) -> tuple[Result, Result]:
    ratios = Result(
        case=figure.name,
        subject="torch_google",
        peer="without it",
        runs=rounds,
        cpu_ratio=figure.cpu_ratio,
        wall_ratio=figure.wall_ratio,
        number=figure.cpu_added * 1e3,
        unit="ms of CPU time added",
        note="; ".join(dict.fromkeys(figure.descriptions)) or None,
    )
    plain = Result(
        case=figure.name,
        subject="without it",
        runs=rounds,
        cpu_seconds=figure.plain_cpu,
        wall_seconds=figure.plain_wall,
    )
    return ratios, plain


def _promised(figure: Figure) -> str:
    if figure.most_added is not None:
        return f"+{figure.most_added * 1e3:.0f} ms"
    return "" if figure.most is None else f"{figure.most:.2f}"
