# SPDX-License-Identifier: Apache-2.0
"""A clone of this workspace with outputs of its own, and what its builds did."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.bazel.events import runners

# What a test is given that a person's shell does not have.
_OF_TESTS = ("TEST_", "RUNFILES_", "JAVA_RUNFILES", "PYTHON", "PAR_", "XML_OUTPUT_FILE")


@dataclass(frozen=True)
class Build:
    """`runners`: how many actions each way of running them had, by Bazel's names of these."""

    status: int
    output: str
    runners: Mapping[str, int]


class Clone:
    """The last commit, cloned into `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = Path(__file__).absolute().parents[2].joinpath("bazelw").resolve().parent
        # A hook's GIT_WORK_TREE would be where git checks the clone out.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
        }
        subprocess.run(["git", "clone", "--quiet", source, root], env=environment, check=True)
        self._output = root.with_name(f"{root.name}.output")

    def build(self, *words: str) -> Build:
        """Runs `bazel build`, without any cache but the service's."""
        events = self.root.with_name(f"{self.root.name}.json")
        options = [
            "--disk_cache=",
            "--color=no",
            "--curses=no",
            f"--build_event_json_file={events}",
            # As paths of this machine: else Bazel asks the service for names of them, and fails
            # where there is none.
            "--nobuild_event_json_file_path_conversion",
        ]
        done = self._bazel("build", *options, *words)
        return Build(done.returncode, done.stdout, runners(events))

    def file(self, path: str) -> Path:
        """What a build made."""
        return self.root / "bazel-bin" / path

    def close(self) -> None:
        """Stops its Bazel and lets its files be deleted, from which Bazel takes that permission."""
        self._bazel("shutdown")
        subprocess.run(["chmod", "-R", "u+w", self._output], check=False)

    def _bazel(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_TESTS)}
        environment["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
        return subprocess.run(
            [self.root / "bazelw", f"--output_base={self._output}", *words],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
