# SPDX-License-Identifier: Apache-2.0
"""Renders a report as a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from torch_google.tpu.estimate.report import Report

_COLOURS = {
    "argument": "#4269d0",
    "temporary": "#efb118",
    "result": "#3ca951",
    "code": "#9498a0",
    "products": "#4269d0",
    "HBM": "#efb118",
}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}
.fits{color:#1a7f37}.large{color:#cf222e}
table{border-collapse:collapse;width:100%}td,th{padding:.2em .6em;text-align:left;
border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}td.n,th.n{text-align:right}
code,pre{font:13px ui-monospace,monospace}pre{background:#f6f8fa;padding:1em;overflow:auto}
figure{margin:1em 0}figcaption span{margin-right:1.5em}figcaption i{display:inline-block;width:.8em;
height:.8em;margin-right:.4em}svg{width:100%;display:block}
"""
_WIDTH = 1000
_BARS = 15


def page(report: Report, title: str) -> str:
    """Return a self-contained HTML page with a memory chart and a time chart."""
    verdict = "fits" if report.fits else "large"
    parts = [
        f"<h1>{_text(title)} on {_text(report.topology)}</h1>",
        f'<p>Each of {report.devices} device(s): <b class="{verdict}">{_text(report.verdict)}</b>.',
        f"{report.parameters:,} parameters.</p>",
    ]
    if report.error:
        parts += ["<h2>The compiler says</h2>", f"<pre>{_text(report.error)}</pre>"]
    else:
        parts += [*_memory(report), *_time(report), *_collectives(report)]
    parts += _list("Advice", report.advice) + _list("Notes", report.notes)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _memory(report: Report) -> list[str]:
    scale = _WIDTH / max(report.available, report.needed, 1)
    x, bars = 0.0, []
    for kind in ("argument", "temporary", "result", "code"):
        for buffer in (b for b in report.grouped_buffers if b.kind == kind):
            width = buffer.bytes * scale
            bars.append(_bar(x, 4, width, 32, kind, f"{buffer.name}: {_mb(buffer.bytes)}"))
            x += width
    limit = report.available * scale
    bars.append(f'<path d="M{limit:.1f} 0v40" stroke="#cf222e" stroke-width="3"/>')
    rows = [
        (_text(b.name), b.kind, f"{b.bytes / 1e6:,.2f}") for b in report.grouped_buffers[:_BARS]
    ]
    return [
        "<h2>Memory of a device</h2>",
        f"<p>{report.needed / 1e9:.2f} of {report.available / 1e9:.2f} GB. The red line is the "
        "device's HBM.</p>",
        _figure(bars, 40, ("argument", "temporary", "result", "code")),
        _table(("buffer at the peak", "kind", "MB"), rows),
    ]


def _time(report: Report) -> list[str]:
    shown = report.grouped_costs[:_BARS]
    longest = max((cost.seconds for cost in shown), default=1.0) or 1.0
    bars = []
    for index, cost in enumerate(shown):
        kind = "products" if cost.utilisation >= 1 else "HBM"
        y = 26 * index
        name = " ".join(part for part in (cost.module, cost.op, cost.line) if part)
        label = f"{name}: {cost.seconds * 1e6:,.1f} us"
        bars.append(_bar(0, y, 400 * cost.seconds / longest, 20, kind, label))
        x = 400 * cost.seconds / longest + 8
        bars.append(f'<text x="{x:.1f}" y="{y + 15}" font-size="13">{_text(label)}</text>')
    rows = [
        (
            _text(cost.module),
            f"<code>{_text(cost.op)}</code>",
            f"<code>{_text(cost.line)}</code>",
            f"{cost.seconds * 1e6:,.1f}",
            f"{100 * cost.utilisation:.0f}",
            f"{cost.flops / 1e9:,.2f}",
            f"{cost.bytes / 1e6:,.2f}",
            f"{cost.cycles:,}",
        )
        for cost in report.grouped_costs[:100]
    ]
    titles = ("module", "operator", "line", "us", "% of peak", "GFLOP", "MB", "cycles")
    return [
        "<h2>Time</h2>",
        f"<p>Roofline {report.seconds * 1e3:.3f} ms, bound by {report.bound}: products "
        f"{report.compute_seconds * 1e3:.3f} ms, HBM {report.memory_seconds * 1e3:.3f} ms, "
        f"interconnect {report.link_seconds * 1e3:.3f} ms. Compiled in "
        f"{report.compile_seconds:.1f} s. <i>cycles</i> is the compiler's own estimate.</p>",
        _figure(bars, 26 * len(shown), ("products", "HBM")),
        _table(titles, rows),
    ]


def _collectives(report: Report) -> list[str]:
    rows = [
        (c.kind, str(c.count), f"{c.bytes / 1e6:,.1f}", f"{c.sent / 1e6:,.1f}")
        for c in report.collectives
    ]
    if not rows:
        return []
    return [
        "<h2>Collectives</h2>",
        _table(("kind", "count", "MB of results", "MB sent by a device"), rows),
    ]


def _list(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    lines = "".join(f"<li>{_text(item)}</li>" for item in items)
    return [f"<h2>{title}</h2><ul>{lines}</ul>"]


def _bar(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.5):.1f}" height="{height}" '
        f'fill="{_COLOURS[kind]}" stroke="#fff" stroke-width=".5"><title>{_text(title)}</title></rect>'
    )


def _figure(shapes: Iterable[str], height: int, kinds: Sequence[str]) -> str:
    legend = "".join(
        f'<span><i style="background:{_COLOURS[kind]}"></i>{kind}</span>' for kind in kinds
    )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {height}">{"".join(shapes)}</svg>'
        f"<figcaption>{legend}</figcaption></figure>"
    )


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table. Numeric columns are right-aligned. Cells are HTML, not plain text."""
    numeric = [
        all(row[i].replace(",", "").replace(".", "").isdigit() for row in rows)
        for i in range(len(titles))
    ]
    kinds = [' class="n"' if each else "" for each in numeric]
    head = "".join(f"<th{k}>{t}</th>" for t, k in zip(titles, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{k}>{c}</td>' for c, k in zip(row, kinds, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.2f} MB"


def _text(text: str) -> str:
    return html.escape(text)
