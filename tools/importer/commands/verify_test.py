# SPDX-License-Identifier: Apache-2.0
"""Run verify and refresh in a workspace whose pinned wheel is cached."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tools.importer.commands.main import main
from tools.importer.verify.sample_wheel import SampleWheel, make_sample


@pytest.fixture(name="sample")
def _sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleWheel:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sample = make_sample(tmp_path / "workspace")
    sample.build(tmp_path / "out")
    sample.record_base()
    return sample


def _run(sample: SampleWheel, *arguments: str) -> int:
    return main(["--workspace", str(sample.root), *arguments])


def test_what_is_pinned_is_verified(
    sample: SampleWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(sample, "verify", "--tree", str(tmp_path / "out")) == 0
    assert f"tree {sample.pin.tree_hash}" in capsys.readouterr().out
    assert _run(sample, "--json", "verify", "--tree", str(tmp_path / "out" / "site")) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


def test_each_difference_is_a_line(
    sample: SampleWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out/site/torch/__init__.py").write_text("word = 'old'\n")
    base = sample.patches / "base.json"
    base.write_text(base.read_text().replace('"mode": "100644"', '"mode": "100755"'))
    sample.write_pin(tree_hash="0" * 64)
    assert _run(sample, "verify", "--tree", str(tmp_path / "out")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["pin", "base", "tree"]
    assert lines[1].startswith("base: mode torch/__init__.py: 100755, wants 100644")
    assert lines[2].startswith("tree: changed torch/__init__.py: ")
    assert lines[3].startswith("3 differences from what ")


def test_a_damaged_wheel_is_given_by_name(
    sample: SampleWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.whl"
    data = sample.wheel.read_bytes()
    with zipfile.ZipFile(sample.wheel) as archive:
        item = archive.getinfo("torch/version.py")
    offset = item.header_offset + 30 + len(item.filename) + 3
    bad.write_bytes(data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :])
    assert _run(sample, "verify", "--wheel", str(bad)) == 1
    assert "wheel: damaged torch/version.py: " in capsys.readouterr().out
    assert _run(sample, "verify", "--wheel", str(tmp_path / "none.whl")) == 1
    assert "none.whl: no such file" in capsys.readouterr().err


def test_options_that_belong_together(
    sample: SampleWheel, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--into", "x"], ["--at", "x"], ["--branch", "x"]):
        assert _run(sample, "verify", *arguments) == 1
        assert "Give both" in capsys.readouterr().err


def test_a_refreshed_patch_moves_the_builds_hash(
    sample: SampleWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.pin
    pin_text = sample.pin_file.read_text()
    assert _run(sample, "edit", "say-new") == 0
    (sample.root / ".import/edit/tree/torch/__init__.py").write_text("word = 'newer'\n")
    assert _run(sample, "refresh") == 0
    assert sample.pin.tree_hash != before.tree_hash
    assert sample.pin_file.read_text() == pin_text.replace(before.tree_hash, sample.pin.tree_hash)
    assert _run(sample, "verify") == 0
    assert f"the build's tree is now {sample.pin.tree_hash}" in capsys.readouterr().out
    site = sample.build(tmp_path / "again")
    assert (site / "torch/__init__.py").read_text() == "word = 'newer'\n"
    assert _run(sample, "verify", "--tree", str(site)) == 0


def test_a_series_changed_by_hand_is_taken_as_it_lies(
    sample: SampleWheel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(sample, "refresh", "--base") == 4
    text = "nothing to do: base.json in v1.0 would stay as it is\n"
    assert capsys.readouterr().out == text
    patch = sample.patches / "say-new.patch"
    patch.write_text(patch.read_text().replace("'new'", "'newer'"))
    assert _run(sample, "verify") == 1
    assert "pin: changed" in capsys.readouterr().out
    assert _run(sample, "refresh", "--base", "--dry-run") == 0
    assert _run(sample, "verify") == 1
    assert _run(sample, "refresh", "--base") == 0
    assert _run(sample, "verify") == 0


def test_comments_of_a_series_change_nothing(sample: SampleWheel) -> None:
    index = sample.patches / "series"
    index.write_text("# Why.\n" + index.read_text())
    assert _run(sample, "verify") == 0
    assert _run(sample, "refresh", "--base") == 4


@pytest.mark.parametrize("damage", ["{", "{}", None])
def test_a_lost_base_is_recorded_from_the_builds_wheel(
    sample: SampleWheel, damage: str | None
) -> None:
    base = sample.patches / "base.json"
    before = base.read_bytes()
    if damage is None:
        base.unlink()
    else:
        base.write_text(damage)
    assert _run(sample, "verify") == 1
    assert _run(sample, "refresh", "--base") == 0
    assert base.read_bytes() == before
