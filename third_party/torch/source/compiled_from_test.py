# SPDX-License-Identifier: Apache-2.0
"""Test that the names of a library's source files can be read from the library."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from third_party.torch.source import compiled_from

LIBRARY = Path(__file__).with_name("libfirst.so")


def test_a_library_names_its_files_and_the_paths_that_it_carries() -> None:
    sources = compiled_from.read([LIBRARY])
    assert sources.has("anywhere/first.cpp")
    assert sources.has("kernel.cpp"), "the path has a suffix for its processor"
    assert not sources.has("second.cpp")
    assert sources.paths == {"aten/src/ATen/native/cpu/kernel.cpp"}


def test_libraries_are_read_together(tmp_path: Path) -> None:
    data = bytearray(LIBRARY.read_bytes())
    offset = data.index(b"\0first.cpp\0")
    data[offset + 1 : offset + 10] = b"other.cpp"
    (tmp_path / "libother.so").write_bytes(data)
    sources = compiled_from.read([LIBRARY, tmp_path / "libother.so"])
    assert sources.has("first.cpp")
    assert sources.has("other.cpp")


def test_a_stripped_library_is_an_error(tmp_path: Path) -> None:
    data = bytearray(LIBRARY.read_bytes())
    struct.pack_into("<H", data, 60, 0)  # Set the number of sections to 0.
    (tmp_path / "lib.so").write_bytes(data)
    with pytest.raises(ValueError, match=r"lib.so names no file .* it was stripped"):
        compiled_from.read([tmp_path / "lib.so"])


def test_another_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(b"INPUT(libc.so.6)\n")
    with pytest.raises(ValueError, match="is not a shared library"):
        compiled_from.read([tmp_path / "lib.so"])
