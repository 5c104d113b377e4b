# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tools.importer.drift import Cell, FileCell, Release, Row, Table, Target, measure, to_page
from tools.importer.drift.page_style import STYLE
from tools.importer.drift.sample import function, upstream, write_series
from tools.importer.engine import Outcome, read_base

_VOID = {"meta", "br"}
_HOSTILE = "</td></pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\x1b\x00"


class _Page(HTMLParser):
    """An HTML parser that checks the nesting of tags and collects the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.classes: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = {name: value or "" for name, value in attrs}
        self.attributes |= set(values)
        self.classes |= set(values.get("class", "").split())
        self.links |= {values["href"]} if "href" in values else set()
        self.ids |= {values["id"]} if "id" in values else set()
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def _every_outcome(word: str = "word") -> Table:
    """Return a one-row table with a column for each outcome. All untrusted text is `word`."""
    releases = tuple(
        Release(f"{number} {word}", word, f"--tag {word}", {"kind": word})
        for number, _ in enumerate(Outcome)
    )
    cells = tuple(
        Cell(outcome, word, (FileCell(word, word + "2", outcome, word, f"-{word}\n+{word}\n"),))
        for outcome in Outcome
    )
    return Table(f"v1 {word}", word, word, releases, (Row(word, word, word, word, word, cells),))


def test_the_page_says_what_the_table_has(tmp_path: Path) -> None:
    series = write_series(tmp_path)
    text = "".join(
        function(f"c_{number}", "    return 'said by the patch!'\n")
        if number == 1
        else function(f"c_{number}")
        for number in range(3)
    )
    release = upstream("v2", b=None, c=text)
    table = measure(series, read_base(series.root), [Target("--tag v2", release)])
    page = _Page(to_page(table))
    assert "2 patches need you" in page.text
    assert "Let c_1 say what we want" in page.text
    assert "return 'said by the patch!'" in page.text
    assert "upstream has no such file now" in page.text
    assert {link.removeprefix("#") for link in page.links} <= page.ids


def test_a_page_of_a_quiet_table_says_so(tmp_path: Path) -> None:
    series = write_series(tmp_path)
    table = measure(series, read_base(series.root), [Target("--tag v1", upstream("v1"))])
    assert "No patch needs you on any of these releases." in _Page(to_page(table)).text


def test_the_page_asks_nobody_for_anything() -> None:
    text = to_page(_every_outcome())
    page = _Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not page.attributes & {"src", "srcset", "style", "action"}
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"https?:|url\(|@import|//", text)


def test_text_of_others_stays_text() -> None:
    plain, hostile = _Page(to_page(_every_outcome())), _Page(to_page(_every_outcome(_HOSTILE)))
    assert hostile.tags == plain.tags
    assert hostile.attributes == plain.attributes
    assert "<script>alert(1)</script>" in hostile.text
    assert "&amp;" in hostile.text
    assert "\\x1b\\x00" in hostile.text
    assert not set(to_page(_every_outcome(_HOSTILE))) & set("\x1b\x00")


@pytest.mark.parametrize("outcome", Outcome, ids=str)
def test_each_outcome_has_a_word_a_sign_and_a_color(outcome: Outcome) -> None:
    page = to_page(_every_outcome())
    name = f"o-{outcome.value.replace(' ', '-')}"
    (sign,) = set(re.findall(rf'class="o {name}"[^>]*><span aria-hidden="true">(.)</span> ', page))
    assert len(re.findall(f">{re.escape(sign)}</span>", page)) == len(
        re.findall(rf'class="o {name}"', page)
    ), "another outcome has the same sign"
    assert f"</span> {outcome.value}</span>" in page


def test_words_can_be_read_in_light_and_in_dark() -> None:
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part))
        for part in STYLE.split("@media (prefers-color-scheme: dark)")
    )
    assert light.keys() == dark.keys()
    for theme in (light, dark):
        grounds = {name.removesuffix("-bg"): name for name in theme if name.endswith("-bg")}
        pairs = [*grounds.items(), ("ink", "ground"), ("soft", "ground"), ("soft", "panel")]
        pairs += [("good", "panel"), ("bad", "panel"), ("good", "ground"), ("ink", "panel")]
        for ink, ground in pairs:
            assert _contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _light(color: str) -> float:
    """Return the relative luminance of an sRGB color."""
    parts = [int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
