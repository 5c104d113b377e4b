# SPDX-License-Identifier: Apache-2.0
"""Test npm clients that return the wrong bytes, fail or are missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.bazel import npm_bazelisk
from tools.bazel.launcher import Unavailable, write_atomically


def _provide(cache: Path) -> str:
    with pytest.raises(Unavailable) as caught:
        npm_bazelisk.provide(root=cache, version="7.7.1", cache=cache)
    return str(caught.value)


def _npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    write_atomically(tmp_path / "bin/npm", f"#!/bin/sh\n{body}\n", mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path / "cache"


def test_no_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    assert _provide(tmp_path / "cache") == "no npm"


def test_other_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _npm(tmp_path, monkeypatch, "echo other > bazelisk.tgz")
    assert "expected " + npm_bazelisk.BAZELISK.sha512 in _provide(cache)
    assert list(cache.iterdir()) == []


def test_the_reason_of_npm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _npm(tmp_path, monkeypatch, "echo 'npm warn x' >&2; echo 'npm error E404' >&2; exit 1")
    assert _provide(cache) == "npm: exit 1: npm error E404"


def test_a_bazelisk_that_cannot_fetch_bazel_is_not_kept(tmp_path: Path) -> None:
    program = tmp_path / f"bazelisk-{npm_bazelisk.BAZELISK.version}"
    write_atomically(program, "#!/bin/sh\necho could not download >&2; exit 1\n", mode=0o755)
    assert _provide(tmp_path) == f"{program}: exit 1: could not download"
    assert not program.exists()
