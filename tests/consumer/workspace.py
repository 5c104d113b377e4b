# SPDX-License-Identifier: Apache-2.0
"""Copy examples/consumer, make the copy depend on this source tree, and run Bazel in it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bazel.events import runners

SOURCES = Path(__file__).absolute().parents[2].joinpath("bazelw").resolve().parent

# Prefixes of environment variables that are set when Bazel runs a test but not in a user's shell.
_OF_TESTS = ("TEST_", "RUNFILES_", "JAVA_RUNFILES", "PYTHON", "PAR_", "XML_OUTPUT_FILE")


@dataclass(frozen=True)
class Result:
    """The result of a Bazel command. Bazel's own messages are in `stderr`."""

    status: int
    stdout: str
    stderr: str


class Workspace:
    """A copy of examples/consumer in `root`, with its own output base and Bazel server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._output = root.with_name(f"{root.name}.output")
        self._events = root.with_name(f"{root.name}.json")
        shutil.copytree(
            SOURCES / "examples/consumer", root, ignore=shutil.ignore_patterns("bazel-*")
        )
        module = self.file("MODULE.bazel")
        text = module.read_text()
        assert text.count('"../.."') == 1
        module.write_text(text.replace('"../.."', json.dumps(str(SOURCES))))

    def file(self, path: str) -> Path:
        """Return the full path of `path`, which is relative to the workspace."""
        return self.root / path

    def edit_lock(self, **packages: Mapping[str, Any]) -> None:
        """Add `packages` to the lock file, replacing existing packages with the same name."""
        path = self.file("requirements.lock.json")
        lock = json.loads(path.read_text())
        lock["packages"].update(packages)
        path.write_text(json.dumps(lock))

    def bazel(self, command: str, *words: str) -> Result:
        """Run a Bazel command in the workspace."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_OF_TESTS)}
        environment.setdefault("HOME", pwd.getpwuid(os.getuid()).pw_dir)
        options = ["--color=no", "--curses=no", f"--build_event_json_file={self._events}"]
        done = subprocess.run(
            [
                SOURCES / "bazelw",
                f"--output_base={self._output}",
                command,
                *(options if command != "shutdown" else []),
                *words,
            ],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def import_py(self, *words: str) -> str:
        """Run the importer, which must succeed; return its output."""
        result = self.bazel("run", "@torch_google//tools/importer:import", "--", *words)
        assert result.status == 0, result.stdout + result.stderr
        return result.stdout

    def runners(self) -> dict[str, int]:
        """Return the number of actions that each Bazel strategy ran in the last build."""
        return runners(self._events)

    def close(self) -> None:
        """Stop Bazel, and make its read-only output directories deletable."""
        self.bazel("shutdown")
        subprocess.run(["chmod", "-R", "u+w", self._output], check=False)
