# SPDX-License-Identifier: Apache-2.0
"""Test bazelw in a small workspace with a stub `bazel` on PATH."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tools.bazel import bootstrap
from tools.bazel.launcher import Launcher, Unavailable, write_atomically

_ROOT = Path(__file__).absolute().parents[2]
_VERSION = (_ROOT / ".bazelversion").read_text().strip()
_RECIPE = re.search(r"^recipe=(\d+)", (_ROOT / "bazelw").read_text(), re.MULTILINE)
_ANSWER = f'[ "$1" != --version ] || {{ echo "bazel {_VERSION}"; exit; }}\n'


class Door:
    """A workspace with bazelw and an empty cache, and stub tools that are first on PATH."""

    def __init__(self, directory: Path) -> None:
        assert _RECIPE is not None
        self.root = directory / "workspace"
        self.tools = directory / "bin"
        self.cache = directory / "cache" / "torch_google/bazel" / f"{_VERSION}-{_RECIPE[1]}"
        self.environment = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "XDG_CACHE_HOME": str(directory / "cache"),
        }
        self.root.mkdir()
        for name in ("bazelw", ".bazelversion"):
            shutil.copy(_ROOT / name, self.root)
        sources = self.root / "tools/bazel"
        sources.mkdir(parents=True)
        for source in (_ROOT / "tools/bazel").glob("*.py"):
            shutil.copy(source, sources)

    def tool(self, name: str, body: str) -> None:
        write_atomically(self.tools / name, f"#!/bin/sh\n{body}\n", mode=0o755)

    def start(self, *arguments: str, stderr: Path | None = None) -> subprocess.Popen[str]:
        """Start bazelw. Its standard error goes to the file `stderr` or, by default, to a pipe."""
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(stderr.open("wb")) if stderr else subprocess.PIPE
            return subprocess.Popen(
                [self.root / "bazelw", *arguments],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def run(self, *arguments: str) -> tuple[str, str]:
        return self.start(*arguments).communicate(timeout=300)


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def test_first_and_second_start(door: Door) -> None:
    door.tool("bazel", _ANSWER + 'echo "$@"')
    output = f"--bazelrc={door.cache}/bazelrc run //a:b -- -- --flag\n"
    out, err = door.run("run", "//a:b", "--", "--", "--flag")
    assert out == output
    assert err.splitlines()[0].startswith(
        f"bazelw: setting up Bazel {_VERSION} in {door.cache}, once"
    )
    assert door.run("run", "//a:b", "--", "--", "--flag") == (output, "")


def test_a_link_to_bazelw_works_without_home(door: Door, tmp_path: Path) -> None:
    door.tool("bazel", _ANSWER + 'echo "$@"')
    (tmp_path / "b").symlink_to(door.root / "bazelw")
    answer = subprocess.check_output([tmp_path / "b", "info"], env=door.environment, text=True)
    assert answer.endswith(" info\n")


def test_a_newer_tool_on_path_is_tried_anew(door: Door) -> None:
    door.tool("bazel", _ANSWER + "echo old")
    assert door.run("info")[0] == "old\n"
    door.tool("bazelisk", _ANSWER + "echo new")
    assert door.run("info")[0] == "new\n"


def test_two_starts_at_once_set_up_once(door: Door, tmp_path: Path) -> None:
    """The first process's probe of `bazel` blocks until the second one logs that it is waiting."""
    wait = f"while [ ! -e {door.tools}/go ]; do sleep 0.05; done"
    door.tool("bazel", f"echo >> {door.tools}/probes; {wait}; {_ANSWER} echo started")
    logs = [tmp_path / "first", tmp_path / "second"]
    processes = [door.start("x", stderr=log) for log in logs]
    while not any("waiting for another bazelw" in log.read_text() for log in logs):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)
    (door.tools / "go").touch()
    assert [process.communicate(timeout=300)[0] for process in processes] == ["started\n"] * 2
    assert sum("waiting for another bazelw" in log.read_text() for log in logs) == 1
    # Only one of the two processes probes `bazel`. Then each process runs it once.
    assert len((door.tools / "probes").read_text()) == 1 + 2


def test_a_killed_start_leaves_the_next_one_free(door: Door) -> None:
    door.tool("bazel", f"[ -e {door.tools}/go ] || exec sleep 120\n{_ANSWER} echo started")
    process = door.start("x")
    while not (door.cache / "lock").exists():
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (door.tools / "go").touch()
    assert door.run("x")[0] == "started\n"


def test_bazelw_as_the_bazel_on_path_does_not_call_itself(door: Door) -> None:
    door.tools.mkdir()
    (door.tools / "bazelisk").symlink_to(door.root / "bazelw")
    door.tool("bazel", _ANSWER + "echo started")
    assert door.run("x")[0] == "started\n"


def test_a_cache_that_cannot_be_made(door: Door, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    process = door.start("x")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    (line,) = err.splitlines()
    assert "Not a directory" in line
    assert "XDG_CACHE_HOME" in line


def test_every_reason_is_told_when_nothing_works() -> None:
    def without(reason: str) -> bootstrap.Provider:
        def provide() -> Launcher:
            raise Unavailable(reason)

        return provide

    with pytest.raises(Unavailable) as caught:
        bootstrap.first_available(
            {"on PATH": without("no bazel"), "from npm": without("no npm")}, version="7"
        )
    assert str(caught.value).splitlines()[:3] == [
        "no way to get Bazel 7. Tried:",
        "  on PATH: no bazel",
        "  from npm: no npm",
    ]


def test_the_first_provider_that_works_is_used() -> None:
    launcher = Launcher(program=Path("/b"), version="7", source="here")

    def never() -> Launcher:
        raise AssertionError

    assert (
        bootstrap.first_available({"one": lambda: launcher, "two": never}, version="7") is launcher
    )
