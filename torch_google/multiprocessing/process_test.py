# SPDX-License-Identifier: Apache-2.0
"""Test `Process` and `spawn` in a program without handle_main, such as a library's test."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from torch_google.multiprocessing import Process, ProcessFailedError, spawn
from torch_google.multiprocessing.testing.process_scenarios import arrive, crash_in_c, fail

every_method = pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])


@every_method
def test_the_error_names_child_status_and_traceback(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    child = Process(fail, (0,), name="first", start_method=method)
    child.start()
    with pytest.raises(ProcessFailedError, match=r"process first .* status 1: ValueError") as info:
        child.join()
    error = info.value
    assert (error.name, error.pid, error.exitcode) == ("first", child.pid, 1)
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert error.traceback.endswith("ValueError: child 0 says no")
    with pytest.raises(ProcessFailedError):
        child.join()
    failures = [record for record in caplog.records if "first (pid" in record.getMessage()]
    assert [record.levelno for record in failures] == [logging.ERROR]
    assert error.traceback in failures[0].getMessage()


@every_method
def test_the_error_of_a_crash_has_its_traceback(method: str) -> None:
    with pytest.raises(ProcessFailedError, match="ended by SIGSEGV") as info:
        spawn(crash_in_c, nprocs=1, start_method=method)
    assert info.value.exitcode == -signal.SIGSEGV
    assert "in crash_in_c" in info.value.traceback


@every_method
def test_statuses(method: str) -> None:
    for status in (0, 3, 255):
        child = Process(sys.exit, (status,), start_method=method)
        child.start()
        if status:
            with pytest.raises(ProcessFailedError, match=f"exit status {status}: it reported no"):
                child.join()
        else:
            assert child.join()
        assert child.exitcode == status


def test_join_with_a_timeout() -> None:
    child = Process(time.sleep, (1000,))
    child.start()
    assert not child.join(0.01)
    assert child.is_alive()
    child.kill()
    with pytest.raises(ProcessFailedError, match="ended by SIGKILL: it reported no reason"):
        child.join()


@every_method
def test_one_failure_ends_all(method: str, tmp_path: Path) -> None:
    with pytest.raises(ProcessFailedError, match=r"train-1 .*ValueError: the second says no"):
        spawn(arrive, (str(tmp_path),), 2, name="train", start_method=method)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "0").read_text()), 0)


def test_no_processes_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="nprocs is 0, and must be 1 or more"):
        spawn(fail, nprocs=0)
