# SPDX-License-Identifier: Apache-2.0
"""Test candidates on PATH, which are scripts that print a Bazel version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.bazel import path_bazel
from tools.bazel.launcher import Unavailable, write_atomically


@pytest.fixture
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return directory


def _tool(path: Path, body: str) -> Path:
    write_atomically(path, f"#!/bin/sh\n{body}\n", mode=0o755)
    return path


def test_a_bazel_of_the_right_version(bin_directory: Path, tmp_path: Path) -> None:
    bazel = _tool(bin_directory / "bazel", "echo bazel 7.7.1")
    assert path_bazel.provide(root=tmp_path, version="7.7.1").program == bazel


def test_bazelisk_is_asked_first_and_told_the_version(bin_directory: Path, tmp_path: Path) -> None:
    _tool(bin_directory / "bazel", "echo bazel 7.7.1")
    bazelisk = _tool(bin_directory / "bazelisk", 'echo "bazel $USE_BAZEL_VERSION"')
    launcher = path_bazel.provide(root=tmp_path, version="7.7.1")
    assert launcher.program == bazelisk
    assert launcher.environment == {"USE_BAZEL_VERSION": "7.7.1"}


def test_all_reasons_are_told(bin_directory: Path, tmp_path: Path) -> None:
    bazel = _tool(bin_directory / "bazel", "echo bazel 7.7.10")
    bazelisk = _tool(bin_directory / "bazelisk", "echo cannot download >&2; exit 1")
    with pytest.raises(Unavailable) as caught:
        path_bazel.provide(root=tmp_path, version="7.7.1")
    assert str(caught.value) == f"{bazelisk}: exit 1: cannot download, {bazel} is 'bazel 7.7.10'"


def test_nothing_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(Unavailable, match=r"^no bazelisk, no bazel$"):
        path_bazel.provide(root=tmp_path, version="7.7.1")
