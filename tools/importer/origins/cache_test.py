# SPDX-License-Identifier: Apache-2.0
"""The cache survives killed writers, concurrent writers, and a full disk."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import resource
import time
from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.cache import Cache, user_cache

_DATA = b"x" * 100_000
_SHA256 = hashlib.sha256(_DATA).hexdigest()


def _keep(root: Path) -> None:
    cache = Cache(root)
    with cache.scratch() as directory:
        (directory / "file").write_bytes(_DATA)
        cache.keep(directory / "file")


def test_a_file_lies_under_its_hash(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.file(_SHA256) is None
    _keep(cache.root)
    path = cache.file(_SHA256)
    assert path is not None
    assert path.read_bytes() == _DATA
    assert path.stat().st_mode & 0o222 == 0
    assert not list((cache.root / "scratch").iterdir())


def test_a_tree_is_made_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    outputs = []

    def make(out: Path) -> None:
        outputs.append(out)
        out.write_bytes(b"zip")

    assert cache.tree(_SHA256, make) == cache.tree(_SHA256, make)
    assert len(outputs) == 1


def test_a_tree_that_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def make(out: Path) -> None:
        out.write_bytes(b"half")
        raise UserError("bad archive")

    with pytest.raises(UserError):
        cache.tree(_SHA256, make)
    assert not list(tmp_path.rglob("*.zip"))


def test_notes(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.named("torch-1") is None
    cache.note("torch-1", {"sha256": _SHA256})
    assert cache.named("torch-1") == {"sha256": _SHA256}


def test_a_hash_that_is_none_cannot_lead_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'../../x' is not a sha256"):
        Cache(tmp_path).file("../../x")


def test_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_keep, args=(tmp_path,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert [path.name for path in (tmp_path / "files").iterdir()] == [_SHA256]


def test_a_killed_writer_leaves_no_file_and_its_scratch_goes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    half = context.Event()

    def write() -> None:
        def make(out: Path) -> None:
            out.write_bytes(b"half")
            half.set()
            time.sleep(1000)

        with Cache(tmp_path).locked("one"):
            Cache(tmp_path).tree(_SHA256, make)

    child = context.Process(target=write)
    child.start()
    assert half.wait(timeout=300)
    child.kill()
    child.join()
    cache = Cache(tmp_path)
    assert not list(tmp_path.glob("trees/*"))
    (leftover,) = (tmp_path / "scratch").iterdir()
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(leftover, (long_ago, long_ago))
    with cache.locked("one"):  # the kernel released the lock when its holder died
        tree = cache.tree(_SHA256, _make)
    assert tree.read_bytes() == _DATA
    assert not leftover.exists()


def _make(out: Path) -> None:
    out.write_bytes(_DATA)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    # A file size limit has the same effect on a writer as a full disk.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    cache = Cache(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(_DATA) // 2, before[1]))
    try:
        with pytest.raises(
            EnvironmentProblem, match="File too large. Make room there, or set XDG_"
        ) as e:
            cache.tree(_SHA256, _make)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(e.value)
    assert not list(tmp_path.rglob("*.zip"))


def test_a_place_that_is_no_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(EnvironmentProblem, match=f"cannot write the cache, {tmp_path}/cache"):
        _keep(tmp_path / "cache")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert user_cache().root == Path("/x/torch_google/importer")
