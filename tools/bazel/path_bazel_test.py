# SPDX-License-Identifier: Apache-2.0
"""Test how programs on PATH are chosen, with scripts that print a Bazel version."""

from __future__ import annotations

import os
import socket
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


def _bazelisk_that_downloads(bin_directory: Path, *, then: str) -> Path:
    line = "2026/01/01 00:00:00 Downloading https://host.invalid/7.7.1/bazel..."
    return _tool(bin_directory / "bazelisk", f"echo '{line}' >&2; {then}")


def _resolve_with(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, _: None) -> None:
        raise socket.gaierror(error, host)

    # Replace getaddrinfo, because a test's sandbox has no name server.
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_no_retries_for_a_host_without_address(
    bin_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_with(socket.EAI_NONAME, monkeypatch)
    bazelisk = _bazelisk_that_downloads(bin_directory, then="exec sleep 10000")
    with pytest.raises(Unavailable) as caught:
        path_bazel.provide(root=tmp_path, version="7.7.1")
    assert str(caught.value) == f"{bazelisk}: host.invalid has no address, no bazel"


@pytest.mark.parametrize("proxy", [False, True])
def test_a_download_that_may_succeed_is_awaited(
    proxy: bool, bin_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_with(socket.EAI_NONAME if proxy else socket.EAI_AGAIN, monkeypatch)
    if proxy:
        monkeypatch.setenv("https_proxy", "http://proxy.invalid")
    bazelisk = _bazelisk_that_downloads(bin_directory, then="sleep 1; echo bazel 7.7.1")
    assert path_bazel.provide(root=tmp_path, version="7.7.1").program == bazelisk
