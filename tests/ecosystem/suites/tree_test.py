# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest

from tests.ecosystem.suites import catalogue, tree
from tests.ecosystem.suites.catalogue import Suite
from third_party.pypi import sdist


def _suite(sha256: str) -> Suite:
    return catalogue.parse(
        [{"library": "small", "version": "1", "sha256": sha256, "paths": ["tests"]}]
    )["small"]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "small-1/tests").mkdir(parents=True)
    (tmp_path / "small-1/tests/test_small.py").write_text("upstream's")
    file = tmp_path / "small-1.tar.gz"
    with tarfile.open(file, "w:gz") as output:
        output.add(tmp_path / "small-1", "small-1")
    return file


def test_the_sources_are_downloaded_once_and_get_the_overlay(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fetch(project: str, version: str, directory: Path) -> sdist.Sdist:
        calls.append((project, version))
        return sdist.Sdist(archive, version)

    monkeypatch.setattr(sdist, "fetch", fetch)
    monkeypatch.setattr(tree, "OVERLAY", tmp_path / "overlay")
    (tmp_path / "overlay/small").mkdir(parents=True)
    (tmp_path / "overlay/small/conftest.py").write_text("ours")
    work = tmp_path / "work"
    work.mkdir()
    suite = _suite(hashlib.sha256(archive.read_bytes()).hexdigest())
    directory = tree.prepare(suite, work)
    assert tree.prepare(suite, work) == directory
    assert calls == [("small", "1")]
    assert (directory / "tests/test_small.py").read_text() == "upstream's"
    assert (directory / "conftest.py").read_text() == "ours"
    assert list(work.iterdir()) == [directory]


def test_another_archive_is_not_unpacked(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"small-1\.tar\.gz: expected sha256 0000.*suites\.json"):
        tree.unpack(_suite("0" * 64), archive, tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
