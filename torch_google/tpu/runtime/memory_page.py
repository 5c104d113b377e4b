# SPDX-License-Identifier: Apache-2.0
"""The HTML page that `torch.tpu.memory.viewer` writes: one file without scripts."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_google.tpu.runtime import memory_history, memory_owners, memory_replay
from torch_google.tpu.runtime.memory_replay import Live, Replay

_ROWS = 40  # the maximum number of rows in a table
_WIDTH, _HEIGHT = 900, 220
_POINTS = 2000  # the maximum in the chart; more would not be visible

_STYLE = """
body { font: 14px/1.45 sans-serif; margin: 2em auto; max-width: 64em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: .5em 0 2em } th, td { text-align: left; padding: .15em 1em .15em 0 }
td.n, th.n { text-align: right } td.bar { width: 12em } td.bar div { background: #4878b0; height: .8em }
code { font-size: 12px } svg { background: #f6f6f6 }
"""


def write(path: Path, device: int, bytes_now: int) -> None:
    """Write the page atomically. `bytes_now` is the total size of the device's live storages."""
    snapshot = memory_history._snapshot()
    result = memory_replay.replay(snapshot, memory_owners.owners(), device, bytes_now)
    _write(path, page(device, result, snapshot["external_annotations"]))


def page(device: int, result: Replay, annotations: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML text of the page."""
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Memory of tpu:{device}</title>',
        f"<style>{_STYLE}</style><h1>Memory of tpu:{device}</h1>",
        f"<p>Peak <b>{_size(result.peak)}</b>, now <b>{_size(result.bytes_now)}</b>, ",
        f"{len(result.timeline):,} events.</p>",
    ]
    if result.timeline:
        parts.append(_chart(result, annotations))
        parts.append(_tables("At the peak", result.at_peak))
    else:
        parts.append(
            "<p>Nothing was recorded. Call <code>torch.tpu.memory._record_memory_history()</code> "
            "before the part of the program to look at.</p>"
        )
    parts.append(_tables("Now", result.now))
    parts.append("</html>\n")
    return "\n".join(parts)


def _tables(title: str, live: Sequence[Live]) -> str:
    return (
        f"<h2>{title}, by module</h2>{_table('module, or owner', live, 'module')}"
        f"<h2>{title}, by line</h2>{_table('line', live, 'line')}"
    )


def _table(head: str, live: Iterable[Live], field: str) -> str:
    rows = memory_replay.totals(live, field)
    total = sum(size for _, size, _ in rows) or 1
    if len(rows) > _ROWS:
        rest = rows[_ROWS:]
        sizes, numbers = sum(row[1] for row in rest), sum(row[2] for row in rest)
        rows = [*rows[:_ROWS], (f"{len(rest)} others", sizes, numbers)]
    cells = "".join(
        f"<tr><td><code>{html.escape(name)}</code><td class=n>{_size(size)}<td class=n>{number:,}"
        f'<td class=bar><div style="width:{100 * size / total:.1f}%"></div>'
        for name, size, number in rows
    )
    return f"<table><tr><th>{head}<th class=n>memory<th class=n>storages<th>{cells}</table>"


def _chart(result: Replay, annotations: Sequence[Mapping[str, Any]]) -> str:
    starts = [each for each in annotations if each["stage"] == "START"]
    times = [time for time, _ in result.timeline] + [each["time_us"] for each in starts]
    start, end = min(times), max(times)
    highest = max(result.peak, 1)

    def x(time: int) -> float:
        return _WIDTH * (time - start) / max(end - start, 1)

    def y(size: int) -> float:
        return _HEIGHT * (1 - 0.95 * size / highest)

    line = " ".join(f"{x(time):.1f},{y(size):.1f}" for time, size in _thinned(result.timeline))
    marks = []
    for each in starts:
        position = x(each["time_us"])
        marks.append(
            f'<line x1="{position:.1f}" x2="{position:.1f}" y1="0" y2="{_HEIGHT}" stroke="#999"/>'
            f'<text x="{position + 2:.1f}" y="{_HEIGHT - 4}" font-size="10">'
            f"{html.escape(each['name'])}</text>"
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" '
        f'aria-label="bytes over time">{"".join(marks)}'
        f'<polyline points="{line}" fill="none" stroke="#4878b0"/>'
        f'<circle cx="{x(result.peak_time):.1f}" cy="{y(result.peak):.1f}" r="4" fill="#c33"/></svg>'
        f"<p>{(end - start) / 1e6:.3f} s; the dot is the peak.</p>"
    )


def _thinned(timeline: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Reduce a timeline to at most _POINTS points, keeping the peak of each interval."""
    step = -(-len(timeline) // _POINTS)
    parts = (timeline[index : index + step] for index in range(0, len(timeline), step))
    return [max(part, key=lambda point: point[1]) for part in parts]


def _size(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.2f} {name}"
    return f"{size:,} B"


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
