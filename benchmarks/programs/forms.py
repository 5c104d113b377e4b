# SPDX-License-Identifier: Apache-2.0
"""Forms in which a program is shipped: a PAR, and a virtual environment that pip fills."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.par_startup.measure import Peer, Sample
from benchmarks.par_startup.peers import PROGRAM

# The user's settings of Python, pip and torch do not apply to measured commands.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PIP_CONFIG_FILE": os.devnull}


class CommandError(RuntimeError):
    """A command failed. The message has its status and the last line of its standard error."""


class Form(Protocol):
    """A program in the form in which it is shipped."""

    @property
    def peer(self) -> Peer:
        """The command that starts the program."""

    @property
    def inputs(self) -> Sequence[Path]:
        """The files and directories that `set_up` or the first start reads."""

    def clear(self) -> None:
        """Delete all files that `set_up` and a start leave. Idempotent."""

    def set_up(self) -> Sample | None:
        """Run the set-up before the first start, and return its cost, or None if there is none."""

    def shipped(self) -> int:
        """Return the number of bytes that are shipped. `set_up` has run, but no start."""

    def on_disk(self) -> int:
        """Return the number of bytes on the disk after a start."""


class Par:
    """A PAR, which unpacks files into a cache when it starts."""

    def __init__(self, name: str, path: Path, directory: Path) -> None:
        self.path, self.cache = path.absolute(), directory / "cache"
        home = directory / "home"
        home.mkdir(parents=True, exist_ok=True)
        environment = {**ENVIRONMENT, "HOME": str(home), "PAR_CACHE_DIR": str(self.cache)}
        self.peer = Peer(name, (str(self.path),), environment)
        self.inputs = (self.path,)

    def clear(self) -> None:
        shutil.rmtree(self.cache, ignore_errors=True)

    def set_up(self) -> None:
        return None

    def shipped(self) -> int:
        return size(self.path)

    def on_disk(self) -> int:
        return size(self.path) + size(self.cache)

    def import_torch(self, path: Path) -> None:
        """Run `import torch` in the PAR `path`, with this PAR's cache."""
        environment = {**self.peer.environment, "PAR_INTERPRETER": "1"}
        run([path.absolute(), "-c", "import torch"], environment=environment)


class Venv:
    """A virtual environment, which pip fills from the directory `wheels`."""

    def __init__(self, name: str, wheels: Path, python: str, directory: Path) -> None:
        self._python, self._wheels, self._directory = python, wheels, directory / "env"
        home = directory / "home"
        home.mkdir(parents=True, exist_ok=True)
        self._environment = {**ENVIRONMENT, "HOME": str(home)}
        command = (str(self._directory / "bin/python"), str(PROGRAM))
        self.peer = Peer(name, command, self._environment)
        self.inputs = (wheels,)

    def clear(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def set_up(self) -> Sample:
        create = run([self._python, "-m", "venv", self._directory], environment=self._environment)
        python = str(self._directory / "bin/python")
        wheels = sorted(map(str, self._wheels.glob("*.whl")))
        command = [python, "-m", "pip", "install", *PIP_OPTIONS, *wheels]
        return total([create, run(command, environment=self._environment)])

    def shipped(self) -> int:
        return size(self._directory)

    def on_disk(self) -> int:
        return size(self._directory)


# `--no-deps`, because the wheels are the complete list.
PIP_OPTIONS = ("--quiet", "--no-index", "--no-deps", "--no-cache-dir")


def total(samples: Sequence[Sample]) -> Sample:
    """Return the cost of processes that ran one after the other."""
    return Sample(
        sum(sample.wall for sample in samples),
        sum(sample.cpu for sample in samples),
        max(sample.memory for sample in samples),
    )


def run(
    command: Sequence[str | Path], *, environment: dict[str, str], directory: Path | None = None
) -> Sample:
    """Run a command in a directory and measure it.

    Raises CommandError if its exit status is not 0.
    """
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise CommandError(
                f"`{' '.join(map(str, command))}` ended with status {process.returncode}: "
                f"{lines[-1] if lines else 'no message'}"
            )
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def size(path: Path) -> int:
    """Return the size in bytes of a file, or of all files under a directory.

    A file with several hard links counts once.
    """
    files = {}
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        status = file.lstat()
        if stat.S_ISREG(status.st_mode):
            files[status.st_dev, status.st_ino] = status.st_size
    return sum(files.values())
