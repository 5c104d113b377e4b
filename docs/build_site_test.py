# SPDX-License-Identifier: Apache-2.0
"""Test that the site has every page and needs no network, and that a dead link is an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import build_site

_ROOM = Path(__file__).parent
_CONFIG = """
site_name: test
theme:
  name: readthedocs
  highlightjs: false
use_directory_urls: false
plugins: []
validation: {omitted_files: warn, absolute_links: warn, unrecognized_links: warn, anchors: warn}
nav:
  - Home: README.md
  - Other: other.md
"""
_OTHER = "# Other\n\n## A part\n\nText.\n"


def _build(directory: Path, **pages: str) -> list[str]:
    (directory / "pages").mkdir()
    (directory / "mkdocs.yml").write_text(_CONFIG)
    files = []
    for name, text in pages.items():
        files.append(directory / "pages" / f"{name}.md")
        files[-1].write_text(text)
    return build_site.build(directory / "mkdocs.yml", files, directory / "site")


def test_the_site_of_this_room_has_every_page_and_asks_no_server() -> None:
    site = _ROOM / "site"
    config = (_ROOM / "mkdocs.yml").read_text()
    names = re.findall(r": (\w+)\.md", config)
    assert len(names) > 10
    for name in names:
        page = site / ("index.html" if name == "README" else f"{name}.html")
        text = page.read_text()
        fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', text)
        assert not fetched, page.name


def test_links_between_pages_and_to_their_parts_are_followed(tmp_path: Path) -> None:
    home = "# Home\n\n[a](other.md) [b](other.md#a-part) [c](#home)\n"
    assert _build(tmp_path, README=home, other=_OTHER) == []
    assert 'href="other.html#a-part"' in (tmp_path / "site/index.html").read_text()


def test_a_picture_is_on_the_site_and_an_absent_one_is_an_error(tmp_path: Path) -> None:
    home = "# Home\n\n![a](pictures/a.png)\n![b](pictures/b.png)\n[c](other.md)\n"
    picture = tmp_path / "pictures/a.png"
    picture.parent.mkdir()
    picture.write_bytes(b"png")
    page, other, config = tmp_path / "README.md", tmp_path / "other.md", tmp_path / "mkdocs.yml"
    page.write_text(home)
    other.write_text(_OTHER)
    config.write_text(_CONFIG)
    (warning,) = build_site.build(config, [page, other, picture], tmp_path / "site")
    assert "pictures/b.png" in warning
    assert (tmp_path / "site/pictures/a.png").read_bytes() == b"png"


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("absent.md", "a link 'absent.md', but the target is not found"),
        ("other.md#absent", "does not contain an anchor '#absent'"),
        ("#absent", "no such anchor on this page"),
        ("/other.md", "absolute link"),
    ],
)
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, link: str, message: str) -> None:
    (problem,) = _build(tmp_path, README=f"# Home\n\n[a]({link})\n", other=_OTHER)
    assert message in problem


def test_a_page_that_no_menu_has_is_an_error(tmp_path: Path) -> None:
    (problem,) = _build(tmp_path, README="# Home\n", other=_OTHER, third="# Third\n")
    assert "third.md" in problem


def test_the_same_pages_give_the_same_bytes(tmp_path: Path) -> None:
    sites = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        _build(tmp_path / name, README="# Home\n", other=_OTHER)
        site = tmp_path / name / "site"
        sites.append(
            {str(f.relative_to(site)): f.read_bytes() for f in site.rglob("*") if f.is_file()}
        )
    assert sites[0] == sites[1]


def test_a_file_of_the_repository_is_named() -> None:
    page = "[the room](../tools/par/README.md#doors), [`LICENSE`](../LICENSE)\n```\n[a](../b)\n```"
    assert build_site.name_repository_files(page) == (
        "the room (`tools/par/README.md`), `LICENSE`\n```\n[a](../b)\n```"
    )


def test_the_command_says_what_to_correct(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _build(tmp_path, README="# Home\n\n[a](absent.md)\n", other=_OTHER)
    pages = [str(page) for page in (tmp_path / "pages").iterdir()]
    arguments = [f"--config={tmp_path}/mkdocs.yml", f"--output={tmp_path}/site", *pages]
    assert build_site.main(arguments) == 1
    text = capsys.readouterr().err
    assert "'absent.md'" in text
    assert "Correct the page, or `nav` in docs/mkdocs.yml" in text
