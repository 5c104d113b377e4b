# SPDX-License-Identifier: Apache-2.0
"""Build a clone of this workspace in its own output base, and measure the builds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.static_rebuild.usage import MemoryWatch, cpu
from tools.bazel.events import runners
from tools.importer.git_environment import without_callers_repository

TARGET = "//examples:train.par"
_PROGRAM = "bazel-bin/examples/train.par"


class BuildFailed(RuntimeError):
    """A Bazel or git command failed. The message contains the last lines of its output."""


@dataclass(frozen=True)
class Build:
    """The cost of one build, in seconds and MiB.

    `cpu` is the CPU time of all actions, `bazel_cpu` that of the Bazel server. `together` and
    `largest` come from `MemoryWatch` and cover only actions. `runners` counts the actions by the
    strategy that ran them, such as a sandbox or a cache.
    """

    wall: float
    cpu: float
    bazel_cpu: float
    together: float
    largest: float
    runners: Mapping[str, int]


class Clone:
    """A clone of the HEAD commit of `source`, in `work`/clone.

    Its output base is `work`/`outputs`.
    """

    def __init__(
        self, source: Path, work: Path, *, outputs: str = "outputs", options: tuple[str, ...] = ()
    ) -> None:
        self.work = work.absolute()
        self.root = self.work / "clone"
        self.output_base = self.work / outputs
        self.log = self.work / "bazel.log"
        self._options = options
        self.work.mkdir(parents=True, exist_ok=True)
        if not (self.root / ".git").is_dir():
            self._run("git", "clone", "--quiet", "--no-checkout", source, self.root)
        # Check out HEAD, and delete files that an interrupted run left behind.
        for command in (
            ["fetch", "--quiet", str(source.absolute()), "HEAD"],
            ["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"],
            ["clean", "--quiet", "--force", "-d"],
        ):
            self._run("git", "-C", self.root, *command)
        if (source / ".bazelrc.user").is_file():
            shutil.copy(source / ".bazelrc.user", self.root)

    @property
    def series(self) -> Path:
        """The directory of the patch series for the torch release that the build compiles."""
        pin = json.loads((self.root / "third_party/torch/source/pin.json").read_text())
        return self.root / "patches/torch" / str(pin["tag"])

    @property
    def source(self) -> Path:
        """The directory into which Bazel unpacked `@torch_source`."""
        sources = sorted((self.output_base / "external").glob("*[~+]torch_source"))
        if len(sources) != 1:
            raise BuildFailed(
                f"{self.output_base}/external: found {len(sources)} directories of @torch_source, "
                "expected one. Remove --work to start from nothing."
            )
        return sources[0]

    def own_tree(self) -> tuple[Path, str]:
        """Copy `source` so that edits can change it.

        Return the copy, and the Bazel option that builds from it.
        """
        tree = self.work / "torch_source"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.source, tree, symlinks=True)
        return tree, f"--override_repository={self.source.name}={tree}"

    def build(self, *options: str) -> Build:
        """Build the program, and return the cost. Raises BuildFailed if Bazel fails."""
        events = self.work / "events.json"
        events.unlink(missing_ok=True)
        pid = int(self._bazel("info", "server_pid").split()[-1])
        before, begin = cpu(pid), time.perf_counter()
        with MemoryWatch(pid) as memory:
            self._bazel(
                "build",
                "--config=static",
                "--color=no",
                "--curses=no",
                "--show_progress_rate_limit=60",
                f"--build_event_json_file={events}",
                *self._options,
                *options,
                TARGET,
            )
        wall = time.perf_counter() - begin
        spent = cpu(pid).since(before)
        return Build(
            wall, spent.children, spent.own, memory.together, memory.largest, runners(events)
        )

    def digest(self) -> str:
        """Return the SHA-256 of the most recently built program."""
        with (self.root / _PROGRAM).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def close(self) -> None:
        """Stop the clone's Bazel server, but keep its outputs, so that a later run starts warm."""
        self._bazel("shutdown")

    def remove_outputs(self) -> None:
        """Stop the clone's Bazel server and delete its outputs."""
        self.close()
        # Bazel makes some output directories read-only.
        for folder, _, _ in os.walk(self.output_base):
            os.chmod(folder, 0o755)
        shutil.rmtree(self.output_base)

    def _bazel(self, *arguments: str) -> str:
        bazelw = self.root / "bazelw"
        return self._run(bazelw, f"--output_base={self.output_base}", *arguments, cwd=self.root)

    def _run(self, *command: str | os.PathLike[str], cwd: Path | None = None) -> str:
        """Run a command and return its stdout. Append its stderr to the log."""
        # git runs hooks with GIT_DIR set. If it stayed set, `git -C` would check out and clean the
        # caller's repository instead of the clone.
        with without_callers_repository(), self.log.open("a+") as log:
            begin = log.tell()
            done = subprocess.run(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )
            log.seek(begin)
            last_lines = log.read().strip().splitlines()[-20:]
        if done.returncode:
            line = " ".join(os.fspath(word) for word in command)
            raise BuildFailed(
                f"`{line}` ended with status {done.returncode}:\n" + "\n".join(last_lines)
            )
        return done.stdout
