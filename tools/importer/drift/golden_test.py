# SPDX-License-Identifier: Apache-2.0
"""drift.json is up to date for the pinned release and, with network access, for all others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tools.importer.drift import Table, Target, from_document, measure, to_json, to_text
from tools.importer.engine import (
    Decision,
    Outcome,
    apply_to_snapshot,
    carry,
    read_base,
    record_base,
)
from tools.importer.errors import EnvironmentProblem
from tools.importer.origins import open_pin
from tools.importer.origins.machine_pip import ConstrainedError
from tools.importer.origins.wheel import WheelSnapshot, wheel_settings
from tools.importer.project import load_project
from tools.importer.report import make_report
from tools.importer.series import Series, load_series
from tools.importer.session import decide_rewrites, read_known_calls
from tools.importer.snapshot import Snapshot

_ROOT = Path(__file__).parents[3]
_PROJECT = load_project(_ROOT)
_DRIFT = _ROOT / "patches" / "torch" / "drift.json"
_UPDATE = (
    "Run `tools/import.py drift v2.6.0 v2.13.0 v2.14.1 v2.15.0 --format json"
    " --output patches/torch/drift.json` and the same with `--format text --output patches/torch/drift.txt`, then read the difference"
)


def _table() -> Table:
    return from_document(json.loads(_DRIFT.read_text(encoding="utf-8")), where=str(_DRIFT))


def _labels() -> list[str]:
    return [release.label for release in _table().releases]


def _wheel(pin: Mapping[str, object]) -> Snapshot:
    """Return the pinned wheel from the runfiles, the local cache, or the package index."""
    settings = wheel_settings(_PROJECT)
    assert settings is not None
    paths = list(_ROOT.parent.glob(f"*torch_wheel/{pin['filename']}"))
    return WheelSnapshot(paths[0], settings, pin) if paths else _fetched(pin)


def _fetched(pin: Mapping[str, object]) -> Snapshot:
    if "TEST_TMPDIR" in os.environ and "BUILD_WORKSPACE_DIRECTORY" not in os.environ:
        pytest.skip("tests have no network here: `bazelw run //tools/importer/drift:golden_test`")
    try:
        return open_pin(_PROJECT, make_report(as_json=True), pin)
    except (ConstrainedError, EnvironmentProblem) as problem:
        reason = f"this machine does not reach the release: {problem}"
        raise pytest.skip.Exception(reason) from problem


def _snapshot(label: str, pin: Mapping[str, object]) -> Snapshot:
    return _wheel(pin) if label == _table().series else _fetched(pin)


def _remake(series: Series, snapshot: Snapshot) -> dict[str, Decision]:
    return decide_rewrites(series, snapshot, read_known_calls(_PROJECT))


def test_the_two_files_say_the_same() -> None:
    table = _table()
    assert to_json(table) == _DRIFT.read_text(encoding="utf-8"), _UPDATE
    assert to_text(table) == _DRIFT.with_suffix(".txt").read_text(encoding="utf-8"), _UPDATE


def test_it_is_of_the_series_as_it_is_now() -> None:
    table = _table()
    series = load_series(_PROJECT.series_of(table.series))
    assert table.digest == series.digest, _UPDATE
    assert [row.name for row in table.rows] == [patch.name for patch in series.patches]


@pytest.mark.parametrize("label", _labels())
def test_the_column_comes_out_again(label: str) -> None:
    table = _table()
    column = _labels().index(label)
    release = table.releases[column]
    series = load_series(_PROJECT.series_of(table.series))
    snapshot = _snapshot(label, release.origin)
    again = measure(
        series, read_base(series.root), [Target(release.options, snapshot)], remake=_remake
    )
    rows = tuple(replace(row, cells=(row.cells[column],)) for row in table.rows)
    assert again == replace(table, releases=(release,), rows=rows), _UPDATE


@pytest.mark.parametrize("label", _labels())
def test_each_release_has_a_series_that_knows_its_base(label: str) -> None:
    """A release's patch series records the same label, commit and origin as the table."""
    (release,) = (each for each in _table().releases if each.label == label)
    base = read_base(_PROJECT.series_of(label))
    assert (base.label, base.commit, dict(base.pin)) == (label, release.commit, release.origin)


@pytest.mark.parametrize("label", _labels())
def test_its_series_applies_strictly_to_the_release(label: str) -> None:
    series = load_series(_PROJECT.series_of(label))
    base = read_base(series.root)
    snapshot = _snapshot(label, base.pin)
    assert record_base(series, snapshot) == base
    assert apply_to_snapshot(series, snapshot)


# If a release's series is rebased back onto the build's release, most patches become identical to
# those in the build's series. These are the outcomes of the others. Patches that were resolved by
# hand need manual resolution again.
_BACK = {
    "v2.6.0": {
        "inductor-pass-hash.patch": Outcome.CONFLICT,
        "inductor-worker-entry.patch": Outcome.CONFLICT,
        "cpp-extension-paths.patch": Outcome.CONFLICT,
        "cpp-extension-precompiled-header.patch": Outcome.CONFLICT,
        "files-of-save-and-load.patch": Outcome.CONFLICT,
        "files-of-torchscript.patch": Outcome.CONFLICT,
        "files-of-exports.patch": Outcome.CONFLICT,
        "files-of-hub.patch": Outcome.SUSPECTED,
        "files-of-the-profiler.patch": Outcome.CONFLICT,
        "config-modules-installed.patch": Outcome.CONFLICT,
        # A function has a different name in v2.6.0.
        "testing-private-device-in-monorepo.patch": Outcome.OFFSET,
    },
    "v2.14.1": {"cpp-extension-paths.patch": Outcome.CONFLICT},
    "v2.15.0": {
        "cpp-extension-paths.patch": Outcome.CONFLICT,
        "files-of-the-profiler.patch": Outcome.CONFLICT,
    },
}


# Outcomes of the patches that are not in the wheel's series, because only a build from source needs
# them.
_OF_SOURCES = {
    "v2.6.0": {
        "inductor-in-a-static-program.patch": Outcome.SUSPECTED,
        "cpp-extension-in-a-static-program.patch": Outcome.THREE_WAY,
        "distributed-without-libuv.patch": Outcome.CONFLICT,
        "log-through-abseil.patch": Outcome.NOT_APPLICABLE,
        "flags-of-abseil.patch": Outcome.NOT_APPLICABLE,
        "archives-by-name.patch": Outcome.NOT_APPLICABLE,
        "onnx-export-apart.patch": Outcome.NOT_APPLICABLE,
        "opcode-tables-of-a-static-python.patch": Outcome.NOT_APPLICABLE,
        "process-groups-without-the-gil.patch": Outcome.NOT_APPLICABLE,
        "rpc-only-with-tensorpipe.patch": Outcome.NOT_APPLICABLE,
        "run-parallel-loops-on-threads-that-wait-without.patch": Outcome.NOT_APPLICABLE,
        "threads-after-fork.patch": Outcome.NOT_APPLICABLE,
        "threads-of-products.patch": Outcome.NOT_APPLICABLE,
    },
    "v2.14.1": {},
    "v2.15.0": {},
}


@pytest.mark.full
@pytest.mark.parametrize("label", _BACK)
def test_carried_back_it_is_the_series_that_it_was(label: str) -> None:
    """Merging needs only the line hashes in the recorded base, so the old release is not read."""
    home = _PROJECT.series_of(_table().series)
    series = load_series(_PROJECT.series_of(label))
    wheel = _wheel(read_base(home).pin)
    decisions = _remake(series, wheel)
    carried = carry(series, read_base(series.root), wheel, decisions=decisions, keep_going=True)
    outcomes = {result.patch.name: result.outcome for result in carried.results}
    assert {
        name: outcome for name, outcome in outcomes.items() if not (home / name).exists()
    } == _OF_SOURCES[label]
    changed = {
        result.patch.name: result.outcome
        for result in carried.results
        if result.patch.name not in _OF_SOURCES[label]
        and result.data != (home / result.patch.name).read_bytes()
    }
    assert changed == _BACK[label]
