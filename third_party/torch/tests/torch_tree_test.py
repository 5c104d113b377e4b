# SPDX-License-Identifier: Apache-2.0
"""The installed torch has exactly the files of the pinned tree."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path, PurePosixPath

import torch

from third_party.torch.unpack import SEAM, SEAM_UPSTREAM, SOURCE_HASH, read_pin
from tools.importer import load_series, tree_hash
from tools.importer.metadata import load_metadata, load_record, words_digest
from tools.importer.project import load_project

_ROOT = Path(__file__).parents[3]
_PIN = read_pin(_ROOT / "third_party" / "torch" / "pin.json")
_SITE = Path(torch.__file__).parents[1]


def test_the_tree_hashes_to_the_pin() -> None:
    assert tree_hash(_SITE) == _PIN.tree_hash


def test_the_record_of_its_making_agrees() -> None:
    info = json.loads((_SITE.parent / "SOURCE_INFO.json").read_text(encoding="utf-8"))
    assert info == {
        "tag": _PIN.tag,
        "commit": _PIN.commit,
        "version": _PIN.version,
        "series": load_series(_ROOT / "patches" / "torch" / _PIN.tag).digest,
        "tree": _PIN.tree_hash,
    }


def test_torch_says_the_same() -> None:
    assert torch.__version__ == _PIN.version
    assert torch.version.git_version == _PIN.commit
    assert torch.version.cuda is None
    assert importlib.metadata.version("torch") == _PIN.version


def test_our_words_on_its_licence_are_its_own() -> None:
    project = load_project(_ROOT)
    (licence,) = _SITE.glob("torch-*.dist-info/licenses/LICENSE")
    record = load_record(project)
    assert record is not None
    assert record.digests["LICENSE"] == words_digest(licence.read_bytes())
    declared = importlib.metadata.metadata("torch")["License-Expression"]
    assert load_metadata(project.metadata).license_note == declared


def test_the_seam_is_ours() -> None:
    seam = _ROOT / "third_party" / "torch" / "seam"
    modules = [path.relative_to(seam) for path in seam.rglob("*.py")]
    assert Path(PurePosixPath(SEAM).name) in modules
    for module in modules:
        assert (_SITE / "torch" / module).read_bytes() == (seam / module).read_bytes()
    assert (_SITE / SEAM_UPSTREAM).is_file()


def test_what_no_program_runs_is_left_out() -> None:
    assert not (_SITE / "torch" / "test").exists()
    assert [path.name for path in (_SITE / "torch" / "bin").iterdir()] == ["torch_shm_manager"]
    assert all(
        ".so" in path.name for path in (_SITE / "torch" / "lib").rglob("*") if path.is_file()
    )


def test_record_lists_the_files_that_are_there() -> None:
    files = importlib.metadata.files("torch") or []
    assert {str(file) for file in files} == {
        path.relative_to(_SITE).as_posix() for path in _SITE.rglob("*") if path.is_file()
    }
    (stamp,) = (file for file in files if str(file) == SOURCE_HASH)
    assert stamp.size == 65
