# SPDX-License-Identifier: Apache-2.0
"""Test that screenshots are small, with a stand-in for the browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from docs import take_picture

_ROOM = Path(__file__).parent
# Copies `source` to the path in --screenshot, and writes its arguments next to `source`.
_BROWSER = """\
#!/bin/sh
for argument in "$@"; do
  case "$argument" in --screenshot=*) cp '{source}' "${{argument#--screenshot=}}" ;; esac
done
printf '%s ' "$@" > '{source}.arguments'
"""


def _browser(directory: Path, text: str) -> Path:
    path = directory / "browser"
    path.write_text(text)
    path.chmod(0o755)
    return path


def _taken(directory: Path, image: Image.Image) -> Path:
    source = directory / "source.png"
    image.save(source)
    return _browser(directory, _BROWSER.format(source=source))


def test_a_picture_has_few_colors(tmp_path: Path) -> None:
    browser = _taken(tmp_path, Image.linear_gradient("L").convert("RGB"))
    picture = tmp_path / "picture.png"
    arguments = [f"--browser={browser}", "--height=256", str(tmp_path / "page.html"), str(picture)]
    assert take_picture.main(arguments) == 0
    with Image.open(picture) as image:
        assert (image.size, image.mode) == ((256, 256), "P")
        assert len(image.getcolors() or ()) <= 128
    said = (tmp_path / "source.png.arguments").read_text()
    assert "--window-size=1000,256" in said
    assert f"file://{tmp_path}/page.html" in said


def test_a_picture_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take_picture, "LIMIT", 10)
    browser = _taken(tmp_path, Image.new("RGB", (64, 64)))
    with pytest.raises(take_picture.PictureError, match="more than 10. Lower --height"):
        take_picture.take(browser, tmp_path / "page.html", tmp_path / "picture.png", 64)
    assert not (tmp_path / "picture.png").exists()


def test_a_browser_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    browser = _browser(tmp_path, "#!/bin/sh\necho no display >&2\nexit 3\n")
    arguments = [f"--browser={browser}", "--height=9", "page.html", str(tmp_path / "picture.png")]
    assert take_picture.main(arguments) == 1
    error = capsys.readouterr().err
    assert "returned 3 for page.html" in error
    assert "no display" in error


def test_the_pictures_of_this_room_are_small() -> None:
    pictures = sorted((_ROOM / "pictures").glob("*.png"))
    assert len(pictures) >= 2
    for picture in pictures:
        assert picture.stat().st_size <= take_picture.LIMIT, picture.name
