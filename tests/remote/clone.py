# SPDX-License-Identifier: Apache-2.0
"""A clone of this workspace, with its own output base, and the results of builds in it."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.bazel.events import runners
from tools.importer.git_environment import without_callers_repository

# Prefixes of environment variables that are set when Bazel runs a test but not in a user's shell.
_OF_TESTS = ("TEST_", "RUNFILES_", "JAVA_RUNFILES", "PYTHON", "PAR_", "XML_OUTPUT_FILE")


@dataclass(frozen=True)
class Build:
    """The result of a build. `runners` maps each Bazel strategy to the number of actions it ran."""

    status: int
    output: str
    runners: Mapping[str, int]


class Clone:
    """A clone of the workspace's last commit. `root` is its directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = Path(__file__).absolute().parents[2].joinpath("bazelw").resolve().parent
        # If a git hook started this test, GIT_WORK_TREE may be set, and git would check out the
        # clone in that directory.
        with without_callers_repository():
            subprocess.run(["git", "clone", "--quiet", source, root], check=True)
        self._output = root.with_name(f"{root.name}.output")

    def build(self, *arguments: str) -> Build:
        """Run `bazel build` without any cache except the service's."""
        events = self.root.with_name(f"{self.root.name}.json")
        options = [
            "--disk_cache=",
            "--color=no",
            "--curses=no",
            f"--build_event_json_file={events}",
            # Report local paths. By default Bazel asks the service for URLs, and fails if the
            # service does not respond.
            "--nobuild_event_json_file_path_conversion",
        ]
        done = self._bazel("build", *options, *arguments)
        return Build(done.returncode, done.stdout, runners(events))

    def file(self, path: str) -> Path:
        """Return the local path of a build output."""
        return self.root / "bazel-bin" / path

    def close(self) -> None:
        """Stop the clone's Bazel server, and make its read-only output folders deletable."""
        self._bazel("shutdown")
        subprocess.run(["chmod", "-R", "u+w", self._output], check=False)

    def _bazel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_TESTS)}
        environment["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
        return subprocess.run(
            [self.root / "bazelw", f"--output_base={self._output}", *arguments],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
