# SPDX-License-Identifier: Apache-2.0
"""Test that archives are valid zip files, and that the same input gives the same bytes."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.par.compiler.container import (
    DEFLATE,
    FOOTER_SIZE,
    ArchiveWriter,
    read_index,
)
from tools.par.compiler.sources import deflate
from tools.par.testing.budget import examples

_NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="/\\:"), min_size=1
).filter(lambda name: name.strip(". ") == name and name)


def _write(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    writer = ArchiveWriter(stream)
    for name, data in files.items():
        writer.add(
            name, deflate(data), method=DEFLATE, crc=zlib.crc32(data), size=len(data), mode=0o644
        )
    section = writer.add_section("files", sorted(files))
    size = writer.finish({"sections": {"files": [section]}})
    assert size == stream.tell()
    return stream.getvalue()


@settings(deadline=None, max_examples=examples(50))
@given(st.dictionaries(_NAMES, st.binary(max_size=300), max_size=8))
def test_zipfile_reads_what_was_written(files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(_write(files))) as archive:
        assert archive.testzip() is None
        contents = {n: archive.read(n) for n in archive.namelist() if not n.startswith(".par/")}
    assert contents == files


def test_same_input_same_bytes() -> None:
    files = {"b.py": b"1", "a/c.py": b"2" * 1000}
    assert _write(files) == _write(files)


def test_zip64_when_there_are_many_entries() -> None:
    files = {f"f{i}": b"" for i in range(70_000)}
    with zipfile.ZipFile(io.BytesIO(_write(files))) as archive:
        assert len(archive.namelist()) == 70_002


def test_index_round_trip_and_where_it_starts() -> None:
    data = _write({"x": b"y"})
    index, end = read_index(memoryview(data), Path("x.par"))
    assert list(index["sections"]) == ["files"]
    assert data[end:].startswith(b"PK\x03\x04")
    assert data[end + 30 :].startswith(b".par/files")


@pytest.mark.parametrize("cut", [1, FOOTER_SIZE, 200])
def test_truncated_archive_says_so(cut: int) -> None:
    data = _write({"x": b"y" * 500})[:-cut]
    with pytest.raises(ValueError, match=r"x\.par: not a finished archive: found \d+ bytes"):
        read_index(memoryview(data), Path("x.par"))


def test_damaged_index_says_so() -> None:
    data = bytearray(_write({"x": b"y"}))
    data[data.index(b"sections")] ^= 1
    with pytest.raises(ValueError, match="index is damaged"):
        read_index(memoryview(bytes(data)), Path("x.par"))
