# SPDX-License-Identifier: Apache-2.0
"""A damaged PAR exits with a one-line error and leaves the cache intact."""

from __future__ import annotations

import pathlib
import shutil
import zipfile

import pytest

from tests.robustness import subject

_LOCAL_HEADER = 30  # the size of an entry's header before its name, in bytes


def _copy(folder: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copy(subject.PROBE, folder / "probe.par"))


def _content(par: pathlib.Path, name: str) -> tuple[int, int]:
    """Return the offset and size of an entry's compressed contents in the PAR."""
    with zipfile.ZipFile(par) as archive:
        entry = archive.getinfo(name)
    return entry.header_offset + _LOCAL_HEADER + len(name.encode()), entry.compress_size


def _flip_bit(par: pathlib.Path, offset: int) -> None:
    with par.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def _assert_cache_still_serves(cache: pathlib.Path) -> None:
    """Check that a damaged PAR left the cache intact, without incomplete directories.

    If the cache contained a broken bundle (a directory of libraries), the intact PAR would load it
    and fail.
    """
    subject.probe(cache).assert_ran()
    assert subject.partial_work(cache) == []


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_truncated_file(tmp_path: pathlib.Path, share: float) -> None:
    par = _copy(tmp_path)
    with zipfile.ZipFile(par) as archive:
        start = min(entry.header_offset for entry in archive.infolist())
    with par.open("r+b") as file:
        file.truncate(start + int((par.stat().st_size - start) * share))
    subject.probe(tmp_path / "cache", par=par).assert_refused(str(par), "truncated")


@pytest.mark.parametrize("change", [-1, +1])
def test_one_byte_less_or_more(tmp_path: pathlib.Path, change: int) -> None:
    par = _copy(tmp_path)
    with par.open("r+b") as file:
        file.truncate(par.stat().st_size + change)
    subject.probe(tmp_path / "cache", par=par).assert_refused(str(par), "bytes")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_bit_flip_in_the_index(tmp_path: pathlib.Path, share: float) -> None:
    par = _copy(tmp_path)
    offset, size = _content(par, ".par/index")
    _flip_bit(par, offset + int(size * share))
    subject.probe(tmp_path / "cache", par=par).assert_refused(str(par), "index", "damaged")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("lib/python3.11/json/__pycache__/__init__.cpython-311.pyc", "json/__init__.py"),
        ("numpy/__pycache__/__init__.cpython-311.pyc", "numpy/__init__.py"),
        (
            "tests/robustness/__pycache__/probe.cpython-311.pyc",
            "tests/robustness/probe.py",
        ),
    ],
)
def test_a_bit_flip_in_code(tmp_path: pathlib.Path, name: str, source: str) -> None:
    cache = tmp_path / "cache"
    subject.probe(cache).assert_ran()
    par = _copy(tmp_path)
    offset, size = _content(par, name)
    _flip_bit(par, offset + size // 2)
    subject.probe(cache, par=par).assert_refused(str(par), source, "damaged")
    _assert_cache_still_serves(cache)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.7, 0.999])
def test_a_bit_flip_in_a_library(tmp_path: pathlib.Path, share: float) -> None:
    cache = tmp_path / "cache"
    par = _copy(tmp_path)
    name = "numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"
    offset, size = _content(par, name)
    _flip_bit(par, offset + int(size * share))
    subject.probe(cache, par=par).assert_refused(str(par), "library", "damaged")
    _assert_cache_still_serves(cache)


def _verify(cache: pathlib.Path, par: pathlib.Path) -> subject.Outcome:
    return subject.run([par], environment={"PAR_CACHE_DIR": str(cache), "PAR_VERIFY": "1"})


def _start(par: pathlib.Path) -> int:
    """Return the offset at which the launcher ends and the archive starts."""
    with zipfile.ZipFile(par) as archive:
        return min(entry.header_offset for entry in archive.infolist())


def test_verify_lets_a_whole_file_run(tmp_path: pathlib.Path) -> None:
    _verify(tmp_path / "cache", subject.PROBE).assert_ran()


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_verify_finds_damage_anywhere_in_the_archive(tmp_path: pathlib.Path, share: float) -> None:
    """PAR_VERIFY also checks bytes that normal runs never read: headers, names, unused files."""
    par = _copy(tmp_path)
    start, end = _start(par), par.stat().st_size - 200
    _flip_bit(par, start + int((end - start) * share))
    _verify(tmp_path / "cache", par).assert_refused(str(par), "PAR_VERIFY", "archive")


def test_verify_finds_damage_in_the_launcher(tmp_path: pathlib.Path) -> None:
    """Flip a bit in the text of an error message, so that the launcher still works."""
    par = _copy(tmp_path)
    offset = par.read_bytes().index(b"this launcher contains no program")
    assert offset < _start(par)
    _flip_bit(par, offset)
    subject.probe(tmp_path / "cache", par=par).assert_ran()
    _verify(tmp_path / "cache", par).assert_refused(str(par), "PAR_VERIFY", "launcher")


@pytest.mark.parametrize("back", [1, 2, 20, 34, 40])
def test_verify_finds_damage_in_its_own_hashes(tmp_path: pathlib.Path, back: int) -> None:
    par = _copy(tmp_path)
    _flip_bit(par, par.stat().st_size - back)
    _verify(tmp_path / "cache", par).assert_refused(str(par), "PAR_VERIFY")
