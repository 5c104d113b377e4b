# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from third_party.torch.unpack import build_tree, read_pin
from tools.importer.origins import OriginSnapshot, open_pin
from tools.importer.origins.cache import user_cache
from tools.importer.project import load_project
from tools.importer.report import JsonReport
from tools.importer.session import finish, load_source, moved_pin, pin_bytes, replay
from tools.importer.session.reimport import write_directory
from tools.importer.snapshot import DictSnapshot
from tools.importer.tree import file_digest
from tools.importer.verify.sample_wheel import COMMIT, FILES, SampleWheel, make_sample

_REPORT = JsonReport(io.StringIO())


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleWheel:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sample = make_sample(tmp_path / "workspace")
    sample.build(tmp_path / "out")
    sample.record_base()
    return sample


def next_release(sample: SampleWheel) -> OriginSnapshot:
    """Create a wheel for v1.1 that has one additional file, and open it."""
    sample.pack({**FILES, "torch/more.py": b"more = 1\n"})
    sha256 = file_digest(sample.wheel)
    with user_cache().scratch() as directory:
        user_cache().keep(Path(shutil.copy(sample.wheel, directory)))
    pin = {
        "kind": "wheel",
        "tag": "v1.1",
        "project": "torch",
        "version": "1.0+cpu",
        "filename": sample.wheel.name,
        "sha256": sha256,
        "commit": COMMIT,
        "natives": True,
    }
    return open_pin(load_project(sample.root), _REPORT, pin)


def test_the_pin_moves_to_what_the_build_then_makes(sample: SampleWheel, tmp_path: Path) -> None:
    project = load_project(sample.root)
    pinned = json.loads(sample.pin_file.read_text())
    pinned["wheel"]["extra_index"] = "https://builds.example.com"
    sample.pin_file.write_text(json.dumps(pinned))
    new = next_release(sample)
    carried = finish(replay(load_source(project, "v1.0"), new, {}), new)
    pin = moved_pin(project, new, carried, _REPORT)
    assert pin is not None
    assert pin["tag"] == "v1.1"
    assert pin["wheel"] == {
        "filename": sample.wheel.name,
        "sha256": file_digest(sample.wheel),
        "extra_index": "https://builds.example.com",
    }
    assert list(pin) == ["tag", "commit", "version", "wheel", "tree_hash"]

    sample.pin_file.write_bytes(pin_bytes(pin))
    series = tmp_path / "series"
    series.mkdir()
    write_directory(series, carried.files)
    moved = read_pin(sample.pin_file)
    build = build_tree(sample.wheel, moved, series, sample.seam, tmp_path / "again")
    assert build.tree_hash == moved.tree_hash
    site = tmp_path / "again/site/torch"
    assert (site / "__init__.py").read_text() == "word = 'new'\n"
    assert (site / "more.py").exists()


def test_another_origin_leaves_the_build_where_it_is(sample: SampleWheel) -> None:
    project = load_project(sample.root)
    new = next_release(sample)
    carried = finish(replay(load_source(project, "v1.0"), new, {}), new)
    files = {path: blob for path in new.paths() if (blob := new.read(path)) is not None}
    assert moved_pin(project, DictSnapshot("v1.1", files), carried, _REPORT) is None
