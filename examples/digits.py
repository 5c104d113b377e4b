# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: 8x8 grayscale images and their labels, read from CSV.

The data set packed into the program is the test set of UCI's "Optical Recognition of Handwritten
Digits", with 1797 rows, as in scikit-learn's wheel. A user's own file must have the same format;
see README.md.
"""

from __future__ import annotations

import dataclasses
import gzip
import importlib.resources
import pathlib
import zlib
from collections.abc import Iterator
from importlib.resources.abc import Traversable

import torch

SIDE = 8
PIXELS = SIDE * SIDE
COLUMNS = PIXELS + 1
BRIGHTEST = 16
CLASSES = 10
FEWEST_ROWS = 10  # With ten rows, the test set has two.

_GZIP_MAGIC = b"\x1f\x8b"


class DataError(ValueError):
    """Raised if a data file is invalid. The message is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images, float32 [n, 1, 8, 8] in 0..1 (0 is white), and their labels, int64 [n] in 0..9."""

    images: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: torch.Tensor) -> Digits:
        return Digits(self.images[rows], self.labels[rows])

    def to(self, device: torch.device) -> Digits:
        return Digits(self.images.to(device), self.labels.to(device))


def packed() -> Traversable:
    """Return the data file that is packed into the program."""
    return importlib.resources.files("examples") / "data" / "digits.csv.gz"


def read(source: Traversable | pathlib.Path) -> Digits:
    """Read digits from a CSV or gzipped CSV file with 65 integer columns.

    Raises DataError if the file is unreadable or invalid, or has too few rows.
    """
    pixels: list[list[int]] = []
    labels: list[int] = []
    for number, line in _lines(source):
        row = _row(line, where=f"{source}:{number}")
        pixels.append(row[:PIXELS])
        labels.append(row[PIXELS])
    if len(labels) < FEWEST_ROWS:
        raise DataError(
            f"{source}: found {len(labels)} rows of digits, training needs at least "
            f"{FEWEST_ROWS}. Add rows, or leave --data out to use the packed digits."
        )
    images = torch.tensor(pixels, dtype=torch.float32).div_(BRIGHTEST)
    return Digits(images.view(-1, 1, SIDE, SIDE), torch.tensor(labels))


def split(digits: Digits, *, seed: int) -> tuple[Digits, Digits]:
    """Split the rows at random into a training set and a test set, which has a fifth of them."""
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(seed))
    held_out = len(digits) // 5
    return digits.select(order[held_out:]), digits.select(order[:held_out])


def _lines(source: Traversable | pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each nonblank line."""
    for number, line in enumerate(_text(source).splitlines(), start=1):
        if line.strip():
            yield number, line


def _text(source: Traversable | pathlib.Path) -> str:
    try:
        content = source.read_bytes()
    except OSError as error:
        raise DataError(
            f"{source}: cannot be read: {error.strerror}. Give --data the path of a CSV file."
        ) from error
    # Check the content, not the name, because browsers may add or remove ".gz".
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{source}: the gzip data is damaged ({error}). Fetch or compress the file again."
            ) from error
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source}: found byte 0x{content[error.start]:02x} at offset {error.start}, "
            f"expected text: {COLUMNS} integers per line. Save the file as plain CSV."
        ) from error


def _row(line: str, *, where: str) -> list[int]:
    cells = line.split(",")
    if len(cells) != COLUMNS:
        raise DataError(
            f"{where}: found {len(cells)} columns, expected {COLUMNS} ({PIXELS} pixels and a "
            "label, separated by commas). Correct this line."
        )
    for column, cell in enumerate(cells, start=1):
        kind, largest = ("pixel", BRIGHTEST) if column < COLUMNS else ("label", CLASSES - 1)
        if not cell.strip().isdecimal() or int(cell) > largest:
            raise DataError(
                f"{where}: found {cell.strip()[:20]!r} in column {column}, expected a {kind}: "
                f"an integer from 0 to {largest}. Correct this line."
            )
    return [int(cell) for cell in cells]
