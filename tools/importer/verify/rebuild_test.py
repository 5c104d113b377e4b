# SPDX-License-Identifier: Apache-2.0
"""Test that rebuilding the tree from a corrupt wheel reports every corrupt path."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.report import JsonReport
from tools.importer.verify import Kind, Rebuilt, compare, hash_tree, hash_wheel, rebuild
from tools.importer.verify.sample_wheel import (
    COMMIT,
    FILES,
    PATCH,
    RECORD,
    SampleWheel,
    make_sample,
    record_of,
)

_QUIET = JsonReport(io.StringIO())


@pytest.fixture(name="sample")
def _sample(tmp_path: Path) -> SampleWheel:
    return make_sample(tmp_path / "workspace")


def _rebuild(sample: SampleWheel) -> Rebuilt:
    return rebuild(sample.wheel, sample.pin, sample.patches, sample.seam, _QUIET)


def _found(rebuilt: Rebuilt) -> list[tuple[str, str, str]]:
    return [(each.where, each.kind.value, each.path) for each in rebuilt.differences]


def test_what_is_pinned_is_rebuilt(sample: SampleWheel, tmp_path: Path) -> None:
    site = sample.build(tmp_path / "out")
    rebuilt = _rebuild(sample)
    assert rebuilt.differences == ()
    assert rebuilt.tree_hash == sample.pin.tree_hash
    assert compare("tree", rebuilt.entries, hash_tree(site, _QUIET)) == []


def test_every_path_of_a_tree_is_named(sample: SampleWheel, tmp_path: Path) -> None:
    site = sample.build(tmp_path / "out")
    (site / "torch" / "__init__.py").write_bytes(FILES["torch/__init__.py"])
    (site / "torch" / "version.py").unlink()
    (site / "torch" / "version.py").symlink_to("__init__.py")
    (site / "torch" / "bin" / "torch_shm_manager").chmod(0o644)
    (site / "torch" / "lib" / "libtorch_cpu.so").unlink()
    (site / "torch" / "left").mkdir()
    (site / "torch" / "left" / "over").touch()
    differences = compare("tree", _rebuild(sample).entries, hash_tree(site, _QUIET))
    assert [(each.kind.value, each.path) for each in differences] == [
        ("changed", "torch/__init__.py"),
        ("mode", "torch/bin/torch_shm_manager"),
        ("extra", "torch/left/over"),
        ("missing", "torch/lib/libtorch_cpu.so"),
        ("changed", "torch/version.py"),
        ("mode", "torch/version.py"),
    ]


def test_a_damaged_member_is_named(sample: SampleWheel) -> None:
    with zipfile.ZipFile(sample.wheel) as archive:
        item = archive.getinfo("torch/lib/libtorch_cpu.so")
    data = bytearray(sample.wheel.read_bytes())
    offset = item.header_offset + 30 + len(item.filename) + 5
    data[offset] ^= 0xFF
    sample.wheel.write_bytes(data)
    rebuilt = _rebuild(sample)
    assert _found(rebuilt) == [
        ("pin", "changed", str(sample.wheel)),
        ("wheel", "damaged", "torch/lib/libtorch_cpu.so"),
    ]
    assert rebuilt.tree_hash is None


def test_members_are_held_against_the_record(sample: SampleWheel) -> None:
    record = record_of({**FILES, "torch/gone.py": b""})
    files = {**FILES, "torch/__init__.py": b"word = 'new'\n", "torch/more.py": b""}
    sample.pack(files, record=record)
    sample.write_pin()
    rebuilt = _rebuild(sample)
    assert [each for each in _found(rebuilt) if each[0] == "wheel"] == [
        ("wheel", "changed", "torch/__init__.py"),
        ("wheel", "missing", "torch/gone.py"),
        ("wheel", "extra", "torch/more.py"),
    ]


def test_a_record_without_a_hash_hides_nothing(sample: SampleWheel) -> None:
    rows = record_of(FILES).splitlines(keepends=True)
    sample.pack(FILES, record="torch/__init__.py,,\n" + "".join(rows[1:]))
    sample.write_pin()
    assert ("wheel", "changed", "torch/__init__.py") in _found(_rebuild(sample))


def test_another_series_or_seam_is_another_tree(sample: SampleWheel, tmp_path: Path) -> None:
    sample.build(tmp_path / "out")
    (sample.seam / "_utils_internal.py").write_text("USE_GLOBAL_DEPS = None\n")
    (difference,) = _rebuild(sample).differences
    assert (difference.where, difference.kind) == ("pin", Kind.CHANGED)
    assert difference.path == str(sample.pin_file)
    assert sample.pin.tree_hash in difference.note


def test_a_patch_that_does_not_fit_is_named(sample: SampleWheel) -> None:
    (sample.patches / "say-new.patch").write_text(PATCH.replace("'old'", "'odd'"))
    (difference,) = _rebuild(sample).differences
    assert str(difference).startswith("series: damaged v1.0: say-new.patch: torch/__init__.py: hun")


@pytest.mark.parametrize(("key", "value"), [("version", "2.0+cpu"), ("commit", "d" * 40)])
def test_the_wheel_must_be_of_the_pinned_release(
    sample: SampleWheel, tmp_path: Path, key: str, value: str
) -> None:
    sample.build(tmp_path / "out")
    sample.write_pin(**{"tree_hash": sample.pin.tree_hash, key: value})
    (difference,) = _rebuild(sample).differences
    assert difference.note.startswith(f"{key} is {value}, the rebuilt tree has ")
    assert COMMIT in difference.note or "1.0+cpu" in difference.note


def test_a_file_that_is_no_wheel(sample: SampleWheel) -> None:
    pin = sample.pin
    sample.wheel.write_bytes(b"no zip")
    with pytest.raises(UserError, match="File is not a zip file. Get the published wheel"):
        rebuild(sample.wheel, pin, sample.patches, sample.seam, _QUIET)


def test_a_tree_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gone: no such directory"):
        hash_tree(tmp_path / "gone", _QUIET)


def test_a_wheel_is_read_whole(sample: SampleWheel) -> None:
    contents = hash_wheel(sample.wheel, _QUIET)
    assert contents.members.keys() == {*FILES, RECORD}
    assert not contents.damaged
