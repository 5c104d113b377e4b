# SPDX-License-Identifier: Apache-2.0
"""The committed patch series is valid and within its size limits, and each patch names a test."""

from __future__ import annotations

import ast
import datetime
from pathlib import Path

import pytest

from third_party.torch.unpack import SEAM, SEAM_UPSTREAM, read_pin
from tools.importer import Patch, load_series

_ROOT = Path(__file__).parents[3]
_TAG = read_pin(_ROOT / "third_party" / "torch" / "pin.json").tag
_PATCHES = load_series(_ROOT / "patches" / "torch" / _TAG).patches


def _each(patch: Patch) -> str:
    return patch.name


@pytest.mark.parametrize("patch", _PATCHES, ids=_each)
def test_the_named_test_exists(patch: Patch) -> None:
    for test in patch.header["Test"].split(", "):
        path, _, name = test.partition("::")
        tree = ast.parse((_ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{patch.name}: Test names '{name}', which {path} does not define"


@pytest.mark.parametrize("patch", _PATCHES, ids=_each)
def test_it_is_small_and_in_date(patch: Patch) -> None:
    assert "Budget" in patch.header, f"{patch.name}: state a Budget of added lines"
    expires = patch.header.get("Expires")
    assert expires is None or datetime.date.fromisoformat(expires) >= datetime.date.today(), (
        f"{patch.name}: expired on {expires}. Check whether upstream has it now, or move the date"
    )


@pytest.mark.parametrize("patch", _PATCHES, ids=_each)
def test_it_only_changes_upstreams_own_files(patch: Patch) -> None:
    paths = {diff.path for diff in patch.files}
    assert not paths & {SEAM, SEAM_UPSTREAM}, f"{patch.name}: edit third_party/torch/seam instead"
    added = [line for diff in patch.files for hunk in diff.hunks for line in hunk.new]
    assert not [line for line in added if b"torch_google" in line]
