# SPDX-License-Identifier: Apache-2.0
"""The patches that rewrite rules generate are up to date, and no other code needs one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from third_party.torch.unpack import SEAM, SEAM_UPSTREAM, read_pin
from tools.importer import FileDiff, Patch, load_series
from tools.importer.rewrites import (
    RULES,
    Modules,
    check_guards,
    patch_files,
    same_patch,
    with_known_calls,
)
from tools.importer.snapshot import Blob, DictSnapshot, OverlaySnapshot

_ROOT = Path(__file__).parents[3]
_TAG = read_pin(_ROOT / "third_party" / "torch" / "pin.json").tag
_SERIES = load_series(_ROOT / "patches" / "torch" / _TAG)
_KNOWN_CALLS = _ROOT / "patches" / "torch" / "rewrites.txt"
_RULES = with_known_calls(RULES, _KNOWN_CALLS.read_bytes(), "patches/torch/rewrites.txt")
_UPDATE = "Run `tools/import.py rewrites --update`"


def _without(data: bytes, diff: FileDiff) -> bytes:
    """Return a file's contents before `diff` was applied to it (without fuzz)."""
    lines = data.splitlines(keepends=True)
    shift = 0
    positions = []
    for hunk in diff.hunks:
        positions.append(hunk.old_index + shift)
        shift += len(hunk.new) - len(hunk.old)
    for hunk, position in zip(reversed(diff.hunks), reversed(positions), strict=True):
        assert tuple(lines[position : position + len(hunk.new)]) == hunk.new
        lines[position : position + len(hunk.new)] = hunk.old
    return b"".join(lines)


@pytest.fixture(scope="module")
def patched() -> DictSnapshot:
    """Return the Python sources of the installed torch."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    site = Path(spec.origin).parents[1]
    files = {
        path.relative_to(site).as_posix(): Blob(path.read_bytes())
        for path in sorted(site.glob("torch/**/*.py"))
    }
    return DictSnapshot(_TAG, files)


@pytest.fixture(scope="module")
def modules() -> Modules:
    return Modules()


def test_each_generated_patch_is_what_its_rule_makes(
    patched: DictSnapshot, modules: Modules
) -> None:
    upstream: dict[str, Blob | None] = {}
    for patch in reversed(_SERIES.patches):
        for diff in reversed(patch.files):
            blob = upstream.get(diff.path) or patched.read(diff.path)
            assert blob is not None
            upstream[diff.path] = Blob(_without(blob.data, diff))
    upstream |= {SEAM: patched.read(SEAM_UPSTREAM), SEAM_UPSTREAM: None}
    tree = OverlaySnapshot(patched, upstream)
    generated = patch_files(_SERIES, tree, _TAG, rules=_RULES, modules=modules)
    assert generated
    for name, data in generated.items():
        assert same_patch((_SERIES.root / name).read_bytes(), data), f"{name} is stale. {_UPDATE}"


def test_nothing_that_a_rule_guards_is_left(patched: DictSnapshot, modules: Modules) -> None:
    check_guards(patched, _TAG, rules=_RULES, modules=modules)


@pytest.mark.parametrize(
    "patch",
    [
        patch
        for patch in _SERIES.patches
        if patch.name
        in (
            "packed-resources.patch",
            "dynamo-import-submodule.patch",
            "export-example-list.patch",
            "fx-uninteresting-files.patch",
        )
    ],
    ids=lambda patch: patch.name,
)
def test_the_guard_misses_each_patch(patch: Patch, patched: DictSnapshot, modules: Modules) -> None:
    """If one of these patches is reverted, `check_guards` reports the code that needs it."""
    for diff in patch.files:
        blob = patched.read(diff.path)
        assert blob is not None
        tree = OverlaySnapshot(patched, {diff.path: Blob(_without(blob.data, diff))})
        with pytest.raises(ValueError, match=f"left on a path from __file__: {diff.path}:"):
            check_guards(tree, _TAG, rules=_RULES, modules=modules)


def test_the_table_is_sound() -> None:
    """A rule's exceptions are distinct and in its scope, and its matches are within its budget."""
    for rule in _RULES:
        places = [(exception.path, exception.function) for exception in rule.kept]
        assert len(set(places)) == len(places)
        assert all(rule.covers(path) for path, _ in places)
        for label in rule.expected:
            assert sum(rule.matches_in(label).values()) <= int(rule.header["Budget"])
    assert len({rule.name for rule in _RULES}) == len(_RULES)
