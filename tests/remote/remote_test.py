# SPDX-License-Identifier: Apache-2.0
"""Test `--config=remote` with BuildGrid and a BuildBox worker on loopback. Needs the network.

This is not part of the test suite, because it runs four builds in two clones and downloads 40 MB
from Debian unstable. Run it after changing `--config=remote`, the toolchain, or the Bazel version.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote import service
from tests.remote.clone import Build, Clone

_SMALL = "//tests/remote:greeting"
_TARGETS = (_SMALL, "@torch_source//:c10")
_CONFIGS = ("--config=remote", *service.OPTIONS)


@pytest.fixture(scope="module")
def work_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remote")


@pytest.fixture(scope="module")
def endpoint(work_directory: Path) -> Iterator[str]:
    directory = work_directory / "service"
    directory.mkdir()
    with service.running(directory) as address:
        yield address


@pytest.fixture(scope="module")
def first(work_directory: Path) -> Iterator[Clone]:
    clone = Clone(work_directory / "first")
    yield clone
    clone.close()


@pytest.fixture(scope="module")
def second(work_directory: Path) -> Iterator[Clone]:
    clone = Clone(work_directory / "a_second_clone")
    yield clone
    clone.close()


@pytest.fixture(scope="module")
def executed(first: Clone, endpoint: str) -> Build:
    return first.build(*_CONFIGS, f"--remote_executor={endpoint}", *_TARGETS)


def test_the_worker_runs_every_action(first: Clone, executed: Build) -> None:
    assert executed.status == 0, executed.output
    assert set(executed.runners) == {"remote"}
    assert executed.runners["remote"] > 20  # c10 alone has more than 20 source files.
    output = subprocess.check_output([first.file("tests/remote/greeting")], text=True)
    assert output == "built somewhere else\n"


def test_a_second_clone_has_every_action_from_the_service(
    second: Clone, executed: Build, endpoint: str
) -> None:
    build = second.build(*_CONFIGS, f"--remote_executor={endpoint}", *_TARGETS)
    assert build.status == 0, build.output
    assert build.runners == {"remote cache hit": executed.runners["remote"]}


@pytest.mark.parametrize("fallback", [False, True])
def test_a_service_that_is_not_there(
    work_directory: Path, second: Clone, *, fallback: bool
) -> None:
    address = f"127.0.0.1:{service.free_port()}"
    # A new compiler option changes the key of every action, so that none is in a cache.
    options = [f"--remote_executor=grpc://{address}", f"--cxxopt=-DFALLBACK={fallback:d}"]
    if fallback:
        build = second.build(*_CONFIGS, *options, "--remote_local_fallback", _SMALL)
        assert build.status == 0, build.output
        assert set(build.runners) == {"local"}
    else:
        build = second.build(*_CONFIGS, *options, _SMALL)
        assert build.status != 0
        assert re.search(rf"Connection refused.*{re.escape(address)}", build.output)
