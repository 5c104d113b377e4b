# SPDX-License-Identifier: Apache-2.0
"""Test that a program that crashes or hangs its process is reported, and that the next one runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from tests.fuzz.worker import Job, Worker

_ABORTS, _EXITS, _HANGS, _DIFFERS = range(4)


def _job(seed: int) -> Iterable[str]:
    if seed == _ABORTS:
        os.abort()
    if seed == _EXITS:
        os._exit(3)
    if seed == _HANGS:
        time.sleep(600)
    if seed == _DIFFERS:
        yield "a difference"


def _prepare() -> Job:
    return _job


def test_each_end_of_a_program_is_a_finding_and_the_next_one_runs() -> None:
    worker = Worker(_prepare, seconds=300)
    try:
        assert worker.findings(7) == []
        assert worker.findings(_ABORTS) == ["seed 0: the process is ended by SIGABRT\n"]
        assert worker.findings(_DIFFERS) == ["a difference"]
        assert worker.findings(_EXITS) == ["seed 1: the process exits with status 3\n"]
        assert worker.findings(7) == []  # start a process, which takes longer than the next timeout
        worker._seconds = 1
        (hang,) = worker.findings(_HANGS)
        assert hang.startswith("seed 2: it does not end within 1 s")
        worker._seconds = 300
        assert worker.findings(7) == []
    finally:
        worker.close()


def test_a_worker_that_cannot_start_is_a_finding() -> None:
    worker = Worker(_fail, seconds=300)
    assert worker.findings(0) == ["seed 0: the process exits with status 1\n"]
    worker.close()


def _fail() -> Job:
    raise RuntimeError("no device")


def test_close_ends_the_process() -> None:
    worker = Worker(_prepare, seconds=300)
    assert worker.findings(7) == []
    process = worker._process
    assert process is not None
    assert process.pid is not None
    worker.close()
    assert process.exitcode in (0, -signal.SIGTERM)
