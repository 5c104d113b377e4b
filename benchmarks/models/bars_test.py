# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from xml.etree import ElementTree

from benchmarks.models import bars

_GROUPS: dict[str, dict[str, float | str]] = {
    "a & b": {"strict": 2.0, "fused": 0.5},
    "c": {"strict": "failed"},
}


def _widths(text: str) -> list[float]:
    """Return the widths of the bars, excluding the background and the legend."""
    rects = re.findall(r'<rect x="[\d.]+" y="(\d+)" width="([\d.]+)" height="9"', text)
    return [float(width) for _, width in rects]


def test_bars_are_equally_long_for_a_ratio_and_its_inverse() -> None:
    text = bars.svg("title", _GROUPS, ("strict", "fused"))
    slower, faster = _widths(text)
    assert slower == faster > 0
    assert text == bars.svg("title", _GROUPS, ("strict", "fused"))


def test_a_failure_is_written_in_place_of_its_bar() -> None:
    root = ElementTree.fromstring(bars.svg("title", _GROUPS, ("strict", "fused")))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"title", "a & b", "failed", "2.00", "0.50"} <= set(texts)


def test_the_scale_covers_all_values() -> None:
    wide = bars.svg("title", {"a": {"x": 300.0}, "b": {"x": 0.02}}, ("x",))
    left, right = re.findall(r'<rect x="([\d.]+)" y="\d+" width="[\d.]+" height="9"', wide)
    assert all(bars._LEFT <= float(x) <= bars._LEFT + bars._PLOT for x in (left, right))
