# SPDX-License-Identifier: Apache-2.0
"""Cache entries are complete or absent, shared by processes, and limited in total size."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import time
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from torch_google import gfile
from torch_google.tpu.cache.directory import Directory
from torch_google.tpu.cache.remote import Remote


def _name(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def test_what_is_written_is_read_and_what_is_not_is_none(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "new" / "cache", None)
    assert directory.read(_name(1)) is None
    directory.write(_name(1), b"one")
    directory.write(_name(1), b"once more")
    assert directory.read(_name(1)) == b"once more"
    assert len(_files(tmp_path)) == 1


def test_nobody_else_may_write_what_this_process_will_run(tmp_path: Path) -> None:
    Directory(tmp_path / "cache", None).write(_name(1), b"one")
    (file,) = _files(tmp_path)
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o022 == 0


def test_the_least_lately_used_go_first(tmp_path: Path) -> None:
    directory = Directory(tmp_path, 1000)
    for number in range(9):
        directory.write(_name(number), bytes(100))
        for file in tmp_path.glob(f"??/{_name(number)}"):
            os.utime(file, (number, number))
    # Reading entry 0 makes it the most recently used entry.
    assert directory.read(_name(0)) is not None
    directory.write(_name(9), bytes(100))
    directory.write(_name(10), bytes(100))
    remaining = {number for number in range(11) if directory.read(_name(number)) is not None}
    assert remaining == {0, 3, 4, 5, 6, 7, 8, 9, 10}
    assert directory.evicted == 2


def test_the_bound_counts_what_other_processes_left(tmp_path: Path) -> None:
    Directory(tmp_path, None).write(_name(1), bytes(5000))
    Directory(tmp_path, 1000).write(_name(2), bytes(100))
    assert [file.name for file in _files(tmp_path)] == [_name(2)]


def test_what_others_have_in_the_directory_stays(tmp_path: Path) -> None:
    others = [tmp_path / "en" / "corpus.txt", tmp_path / "ab" / "notes", tmp_path / "ab" / _name(3)]
    for file in others:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(5000))
        os.utime(file, (1, 1))
    (tmp_path / _name(4)[:2] / _name(4)).mkdir(parents=True)
    (tmp_path / "cd" / ".partial-folder").mkdir(parents=True)
    directory = Directory(tmp_path, 1000)
    for number in range(10, 30):
        directory.write(_name(number), bytes(100))
    assert all(file.exists() for file in others)
    assert directory.evicted > 0


def test_an_entry_above_the_bound_has_no_room(tmp_path: Path) -> None:
    assert not Directory(tmp_path, 1000).fits(1001)
    # Eviction shrinks the directory to 90% of the limit, so it would remove a larger entry at once.
    assert not Directory(tmp_path, 1000).fits(950)
    assert Directory(tmp_path, 1000).fits(900)
    assert Directory(tmp_path, None).fits(1 << 40)


def test_litter_goes_once_it_is_old(tmp_path: Path) -> None:
    directory = Directory(tmp_path, 1000)
    directory.write(_name(1), b"one")
    parent = _files(tmp_path)[0].parent
    for name, age in [(".partial-old", 7200), (".partial-new", 60)]:
        (parent / name).write_bytes(b"half")
        os.utime(parent / name, (time.time() - age,) * 2)
    Directory(tmp_path, 1000).write(_name(2), b"two")
    assert not (parent / ".partial-old").exists()
    assert (parent / ".partial-new").exists()


def _write_and_read(path: Path, failures: multiprocessing.Queue[str]) -> None:
    directory = Directory(path, 20_000)
    for turn in range(150):
        number = turn % 10
        directory.write(_name(number), bytes([number]) * 3000)
        data = directory.read(_name((number * 7) % 10))
        if data is not None and data != bytes([(number * 7) % 10]) * 3000:
            failures.put(f"{turn}: {data[:8]!r} of {len(data)} bytes")


@pytest.mark.full
def test_many_processes_share_it_and_see_whole_entries(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    workers = [context.Process(target=_write_and_read, args=(tmp_path, failures)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert failures.empty(), failures.get()
    assert not [file for file in _files(tmp_path) if file.name.startswith(".")]


def test_a_place_that_takes_no_files_is_an_error_of_the_system() -> None:
    directory = Directory("/proc/version/cache", None)
    with pytest.raises(OSError, match="Not a directory"):
        directory.write(_name(1), b"one")


def test_a_url_that_gfile_opens() -> None:
    remote = Remote("memory://compiled/tpu/")
    assert remote.read(_name(1)) is None
    remote.write(_name(1), b"one")
    assert Remote("memory://compiled/tpu").read(_name(1)) == b"one"
    actual = fsspec.filesystem("memory").find("/compiled")
    assert actual == [f"/compiled/tpu/{_name(1)[:2]}/{_name(1)}"]


def test_a_scheme_that_is_registered(tmp_path: Path) -> None:
    below = DirFileSystem(str(tmp_path), LocalFileSystem(auto_mkdir=True))
    gfile.register_scheme("probe", below, rename_commits=True)
    remote = Remote("probe://here")
    assert remote.read(_name(1)) is None
    remote.write(_name(1), b"one")
    assert remote.read(_name(1)) == b"one"
    assert [file.read_bytes() for file in _files(tmp_path / "here")] == [b"one"]


def test_the_root_of_a_scheme_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Remote("memory://").write(_name(1), b"root")
    assert Remote("memory:///").read(_name(1)) == b"root"
    assert fsspec.filesystem("memory").cat(f"/{_name(1)[:2]}/{_name(1)}") == b"root"
    assert _files(tmp_path) == []


@pytest.mark.parametrize("url", ["abacus://x", "zip:///x", "reference://x"])
def test_a_url_that_nothing_opens(url: str) -> None:
    with pytest.raises(ValueError, match=f"cannot open '{url}'"):
        Remote(url)


def test_whatever_a_filesystem_raises_is_an_error_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("token")

    broken = LocalFileSystem(skip_instance_cache=True)
    monkeypatch.setattr(broken, "_open", fail)
    gfile.register_scheme("broken", broken, rename_commits=True)
    with pytest.raises(OSError, match="KeyError: 'token'"):
        Remote("broken://x").read(_name(1))
