# SPDX-License-Identifier: Apache-2.0
"""Take a screenshot of the top of an HTML page with a headless browser, as a small PNG.

take_picture.par --browser=/usr/bin/chromium --height=1200 PAGE.html PICTURE.png
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

WIDTH = 1000  # of the browser's window, in pixels
LIMIT = 150_000  # of a picture's size, in bytes
_COLORS = 128
_SECONDS = 120


class PictureError(Exception):
    """The browser failed, or the screenshot is too large."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", type=Path, required=True, help="a Chromium, or a Chrome")
    parser.add_argument("--height", type=int, required=True, help="of the picture, in pixels")
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(arguments)
    try:
        take(options.browser, options.page, options.picture, options.height)
    except PictureError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    return 0


def take(browser: Path, page: Path, picture: Path, height: int) -> None:
    """Write a screenshot of the page's top `height` pixels, with few colors.

    Raises PictureError if the browser fails, or if the screenshot exceeds LIMIT bytes.
    """
    from PIL import Image

    with tempfile.TemporaryDirectory() as directory:
        taken = Path(directory, "taken.png")
        command = [
            str(browser),
            "--headless",
            # The page is our own file, and containers lack the privileges to create a sandbox.
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={directory}/profile",
            f"--window-size={WIDTH},{height}",
            f"--screenshot={taken}",
            page.absolute().as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode or not taken.exists():
            raise PictureError(
                f"{browser} returned {done.returncode} for {page}, and said:\n{done.stderr.strip()}"
            )
        small = Path(directory, "small.png")
        with Image.open(taken) as image:
            image.convert("RGB").quantize(_COLORS, Image.Quantize.MAXCOVERAGE).save(
                small, optimize=True
            )
        data = small.read_bytes()
    if len(data) > LIMIT:
        raise PictureError(
            f"{picture} would have {len(data):,} bytes, more than {LIMIT:,}. Lower --height"
        )
    partial = picture.with_name(f"{picture.name}.partial")
    partial.write_bytes(data)
    partial.replace(picture)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
