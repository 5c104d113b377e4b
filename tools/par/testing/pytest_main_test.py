# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers

from tools.par.testing import pytest_main


@pytest.mark.parametrize(("index", "idle"), [("0", False), ("1", True)])
def test_with_a_filter_the_first_shard_runs_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, index: str, *, idle: bool
) -> None:
    monkeypatch.setenv("TESTBRIDGE_TEST_ONLY", "some_test")
    monkeypatch.setenv("TEST_TOTAL_SHARDS", "2")
    monkeypatch.setenv("TEST_SHARD_INDEX", index)
    monkeypatch.setenv("TEST_SHARD_STATUS_FILE", str(tmp_path / "status"))
    assert pytest_main.is_idle_shard() == idle
    assert (tmp_path / "status").exists()  # Bazel fails a shard without this file
    assert "TEST_TOTAL_SHARDS" not in os.environ


@pytest.mark.parametrize("name", ["TESTBRIDGE_TEST_ONLY", "TEST_TOTAL_SHARDS"])
def test_without_a_filter_or_without_shards_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable in ("TESTBRIDGE_TEST_ONLY", "TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.delenv(name)
    assert not pytest_main.is_idle_shard()
    assert os.environ["TEST_SHARD_INDEX"] == "1"


def test_hypothesis_parses_the_workspace_only() -> None:
    assert providers.is_local_module_file(pytest_main.__file__)
    assert not providers.is_local_module_file(pytest.__file__)
    assert not providers.is_local_module_file(os.__file__)
