# SPDX-License-Identifier: Apache-2.0
"""Draw ratios as an SVG bar chart on a logarithmic scale. The output is deterministic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = ("#9e9e9e", "#c58f00", "#5ba3d9", "#1f6fb2", "#0b3c66")

_LEFT, _PLOT, _RIGHT, _TOP, _BAR, _GAP, _FOOT = 230, 460, 60, 62, 11, 9, 24
_WIDTH = _LEFT + _PLOT + _RIGHT
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def svg(title: str, groups: Mapping[str, Mapping[str, float | str]], series: Sequence[str]) -> str:
    """Draw a group of bars for each key of `groups`, with a bar for each of `series`.

    A value that is not a number is written in place of its bar. Bars start at the value 1.
    """
    numbers = [v for bars in groups.values() for v in bars.values() if not isinstance(v, str)]
    low, high = _range(numbers)

    def x(value: float) -> float:
        share = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        return _LEFT + share * _PLOT

    lines, y = [], float(_TOP)
    for name, bars in groups.items():
        middle = y + len(series) * _BAR / 2 + 4
        lines.append(_text(_LEFT - 8, middle, name, anchor="end"))
        for index, each in enumerate(series):
            value = bars.get(each, "")
            if isinstance(value, str):
                lines.append(_text(x(1) + 4, y + _BAR - 2, value, size=9))
            else:
                lines += _bar(x(1), x(value), y, value, COLOURS[index % len(COLOURS)])
            y += _BAR
        y += _GAP
    grid = [_tick(x(value), value, y) for value in _TICKS if low <= value <= high]
    height = y + _FOOT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {_WIDTH} {height:.0f}" font-family="sans-serif">',
            f'<rect width="{_WIDTH}" height="{height:.0f}" fill="white"/>',
            _text(12, 22, title, size=14),
            *_legend(series),
            *grid,
            *lines,
            "</svg>\n",
        ]
    )


def _range(numbers: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper ends of an axis that contains 1 and all of the given numbers."""
    low = max((t for t in _TICKS if t <= min([*numbers, 0.5])), default=_TICKS[0])
    high = min((t for t in _TICKS if t >= max([*numbers, 2])), default=_TICKS[-1])
    return min([low, *numbers]), max([high, *numbers])


def _legend(series: Sequence[str]) -> list[str]:
    lines, x = [], _LEFT
    for index, name in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        lines.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/>')
        lines.append(_text(x + 14, 41, name))
        x += 26 + 7 * len(name)
    return lines


def _bar(one: float, end: float, y: float, value: float, colour: str) -> list[str]:
    left, width = min(one, end), abs(end - one)
    return [
        f'<rect x="{left:.1f}" y="{y:.0f}" width="{width:.1f}" height="{_BAR - 2}" '
        f'fill="{colour}"/>',
        _text(max(one, end) + 4, y + _BAR - 2, f"{value:.2f}", size=9),
    ]


def _tick(x: float, value: float, bottom: float) -> str:
    stroke = "#444" if value == 1 else "#ddd"
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{bottom:.0f}" stroke="{stroke}"/>'
    return line + _text(x, bottom + 14, f"{value:g}", size=10, anchor="middle")


def _text(x: float, y: float, text: str, *, size: int = 11, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222">'
        f"{escape(text)}</text>"
    )
