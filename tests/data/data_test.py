# SPDX-License-Identifier: Apache-2.0
"""Test loading from each kind of path, with and without workers, and exact resumption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from absl import flags

from tests.cloud import stores
from tests.data import program, records
from tools.par.testing.budget import only_full

_COUNT = 24
_STEPS = 12  # batches of 4 in two epochs
_TIMEOUT = 240.0
_LOADERS = list(program.LOADERS)
_SCHEMES = ["file", *only_full("s3", "gs")]
_WORKERS = [*only_full(0), 2]


_WRITE = """
import sys
from absl import flags
from tests.data import data_test

flags.FLAGS.mark_as_parsed()
data_test._write(*sys.argv[1:])
"""


@pytest.fixture(scope="module", autouse=True)
def _parsed_flags() -> None:
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # grain and array_record read their flags


@contextmanager
def _place(scheme: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a folder's path for a URL scheme, and the environment variables for accessing it."""
    if scheme == "file":
        yield str(folder), dict(os.environ)
        return
    with stores.serve(scheme) as store:
        yield store.path("data"), store.environment


def _write(loader: str, path: str) -> None:
    if loader == "array_record":
        from tests.data import grain_loader

        grain_loader.write_array_record(path, _COUNT)
    else:
        records.write(path, _COUNT)


def _command(loader: str, folder: str, state: str, workers: int) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.data.program", f"--loader={loader}"),
        *(f"--records={folder}/records", f"--state={folder}/{state}", f"--workers={workers}"),
    ]


def _run(command: list[str], environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _start_and_kill(command: list[str], environment: dict[str, str], steps: int) -> list[str]:
    """Run a program until it has printed `steps` batches, then kill it."""
    lines: list[str] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if len(lines) > steps:
                break
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return lines


@pytest.mark.parametrize("workers", _WORKERS)
@pytest.mark.parametrize("scheme", _SCHEMES)
@pytest.mark.parametrize("loader", _LOADERS)
def test_a_killed_program_resumes_exactly(
    tmp_path: Path, loader: str, scheme: str, workers: int
) -> None:
    with _place(scheme, tmp_path) as (folder, environment):
        # Write in a child process, because fsspec caches a client with its server's address.
        _run([sys.executable, "-c", _WRITE, loader, f"{folder}/records"], environment)
        whole = _run(_command(loader, folder, "whole", workers), environment)
        assert whole[0] == "starts at 0"
        assert len(whole) == 1 + _STEPS
        seen = sorted(int(number) for line in whole[1:] for number in line.split()[1:])
        assert seen == sorted([*range(_COUNT)] * 2)

        command = _command(loader, folder, "killed", workers)
        head = _start_and_kill(command, environment, 4)
        first, *rest = _run(command, environment)
        step = int(first.removeprefix("starts at "))
        assert step >= 4  # the program saves before it prints
        assert head == whole[: len(head)]
        assert rest == whole[1 + step :]


@pytest.mark.parametrize("loader", _LOADERS)
def test_memory_paths_resume_in_the_same_process(loader: str) -> None:
    path = f"memory://data/{loader}"
    _write(loader, path)
    whole = list(program.create(loader, path, 0))
    assert len(whole) == _STEPS
    first = program.create(loader, path, 0)
    batches = iter(first)
    head = [next(batches) for _ in range(4)]
    second = program.create(loader, path, 0)
    second.resume(first.state())
    assert head + list(second) == whole


def test_forked_workers_read_memory_paths() -> None:
    path = "memory://data/forked"
    records.write(path, _COUNT)
    batches = list(program.create("torchdata", path, 2))
    assert len(batches) == _STEPS
    assert sorted(number for batch in batches for number in batch) == sorted([*range(_COUNT)] * 2)
