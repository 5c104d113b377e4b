# SPDX-License-Identifier: Apache-2.0
"""A clone of this workspace with its own outputs, in which the benchmark builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tools.importer.git_environment import without_callers_repository


class CommandFailed(RuntimeError):
    """A command failed. The message contains the last lines of its output."""


class Workspace:
    """A new clone of the HEAD commit of `source`, in `work`/clone.

    It starts without outputs: the output base and, by default, the disk cache are also in `work`.
    Files that Bazel has downloaded before come from its repository cache, and wheels from pip's
    cache. Raises CommandFailed if `work` already has a clone.
    """

    def __init__(self, source: Path, work: Path, *, disk_cache: Path | None = None) -> None:
        self.work = work.absolute()
        self.root = self.work / "clone"
        self.log = self.work / "commands.log"
        self.work.mkdir(parents=True, exist_ok=True)
        self.run("git", "clone", "--quiet", str(source.absolute()), str(self.root), cwd=self.work)
        own = source / ".bazelrc.user"
        options = own.read_text(encoding="utf-8") if own.is_file() else ""
        # add.py also starts Bazel, so the options cannot be arguments.
        options += (
            f"\nstartup --output_base={self.work / 'outputs'}"
            f"\nbuild --disk_cache={disk_cache or self.work / 'cache'} --remote_cache="
            "\nbuild --color=no --curses=no --show_progress_rate_limit=60\n"
        )
        (self.root / ".bazelrc.user").write_text(options, encoding="utf-8")

    def run(self, *command: str, cwd: Path | None = None) -> float:
        """Run a command in the clone, and return the seconds that it took.

        Its output goes to the log. Raises CommandFailed if its exit status is not 0.
        """
        # git hooks may run with GIT_DIR and GIT_WORK_TREE set. With them, `restore` would check out
        # and clean the caller's work tree instead of the clone.
        with without_callers_repository(), self.log.open("a+", encoding="utf-8") as log:
            begin, start = log.tell(), time.monotonic()
            status = subprocess.run(
                command,
                cwd=cwd or self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
            seconds = time.monotonic() - start
            log.seek(begin)
            last_lines = log.read().strip().splitlines()[-20:]
        if status:
            text = "\n".join(last_lines)
            raise CommandFailed(f"`{' '.join(command)}` ended with status {status}:\n{text}")
        return seconds

    def restore(self) -> None:
        """Undo all changes of the clone's files."""
        self.run("git", "checkout", "--quiet", "--force", "HEAD")
        self.run("git", "clean", "--quiet", "--force", "-d")

    def close(self) -> None:
        """Stop the clone's Bazel server, and delete the clone and its outputs. Keep the log."""
        if (self.root / "bazelw").is_file():
            self.run("./bazelw", "shutdown")
        for folder in (self.root, self.work / "outputs", self.work / "cache"):
            # Bazel makes some output directories read-only.
            for directory, _, _ in os.walk(folder):
                os.chmod(directory, 0o755)
            shutil.rmtree(folder, ignore_errors=True)
