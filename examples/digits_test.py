# SPDX-License-Identifier: Apache-2.0
"""Test reading digits from the packed file, from a user's file, and from invalid files."""

from __future__ import annotations

import gzip
import pathlib

import pytest
import torch

from examples import digits

_ROW = ",".join(["0", "16", *["8"] * 62, "7"])


def _file(folder: pathlib.Path, content: str | bytes) -> pathlib.Path:
    path = folder / "mine.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_the_packed_file_is_the_uci_test_set() -> None:
    data = digits.read(digits.packed())
    assert data.images.shape == (1797, 1, 8, 8)
    assert data.images.min() == 0.0
    assert data.images.max() == 1.0
    # The number of rows per class, according to the data set's documentation.
    assert data.labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_a_users_file_reads_plain_and_gzipped(tmp_path: pathlib.Path) -> None:
    text = "\n".join([_ROW] * 10) + "\n\n"
    plain = digits.read(_file(tmp_path, text))
    zipped = digits.read(_file(tmp_path, gzip.compress(text.encode())))
    assert torch.equal(plain.images, zipped.images)
    assert plain.images[0, 0, 0, :3].tolist() == [0.0, 1.0, 0.5]
    assert plain.labels.tolist() == [7] * 10


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("\n".join([_ROW, _ROW, "1,2,3"]), r"mine\.csv:3: found 3 columns, expected 65 "),
        (f"{_ROW}\n\n{_ROW},1\n", r"mine\.csv:3: found 66 columns"),
        (_ROW.replace("16", "17", 1), r":1: found '17' in column 2, expected a pixel: .* 0 to 16"),
        (_ROW.replace("16", "-1", 1), r":1: found '-1' in column 2"),
        (_ROW.replace("16", "1.5", 1), r":1: found '1.5' in column 2"),
        (_ROW.replace("16", "", 1), r":1: found '' in column 2"),
        (_ROW[:-1] + "10", r":1: found '10' in column 65, expected a label: .* 0 to 9"),
        ("\n".join([_ROW] * 9), r"found 9 rows of digits, training needs at least 10"),
        ("", r"found 0 rows"),
        (b"\x89PNG\r\n", r"found byte 0x89 at offset 0, expected text"),
        (gzip.compress(_ROW.encode())[:-9], r"the gzip data is damaged"),
        (gzip.compress(_ROW.encode())[:-8] + bytes(8), r"the gzip data is damaged"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) or len(value) > 99 else value,
)
def test_a_wrong_file_is_refused_in_one_line(
    tmp_path: pathlib.Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(digits.DataError, match=complaint) as caught:
        digits.read(_file(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(digits.DataError, match=r"absent\.csv: cannot be read: No such file"):
        digits.read(tmp_path / "absent.csv")
    with pytest.raises(digits.DataError, match="cannot be read: Is a directory"):
        digits.read(tmp_path)


def test_the_split_depends_on_the_seed_alone_and_loses_no_row() -> None:
    data = digits.Digits(torch.arange(50.0).view(-1, 1, 1, 1), torch.arange(50))
    training, test = digits.split(data, seed=3)
    assert (len(training), len(test)) == (40, 10)
    assert sorted([*training.labels.tolist(), *test.labels.tolist()]) == list(range(50))
    assert digits.split(data, seed=3)[1].labels.equal(test.labels)
    assert not digits.split(data, seed=4)[1].labels.equal(test.labels)
    assert torch.equal(test.images.flatten().long(), test.labels)
