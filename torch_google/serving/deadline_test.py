# SPDX-License-Identifier: Apache-2.0
"""Test the shutdown's deadline, in separate processes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

_PATIENCE = 300.0
_PROGRAM = """
import ctypes, threading, time
from torch_google.serving import deadline

def hang():
    limit.start(0.2)
    time.sleep(1000)

limit = deadline.Deadline(lambda: "worker 7 has a batch")
"""
# Code that disables `_expire`, so that only the backstop, faulthandler's thread, can terminate the
# process. `wait_for_backstops` waits until the backstop has been armed `count` times.
_BACKSTOP_ONLY = """
backstops = threading.Semaphore(0)
start_backstop = deadline._start_backstop

def start_and_tell(end):
    has_backstop = start_backstop(end)
    backstops.release()
    return has_backstop

def wait_for_backstops(count):
    for _ in range(count):
        backstops.acquire()

deadline._BACKSTOP = 0.5
deadline._start_backstop = start_and_tell
limit._expire = lambda seconds: time.sleep(1000)
"""


def _run(body: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM + body]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)


def test_an_expired_limit_ends_the_process_and_names_what_hangs() -> None:
    result = _run("hang()")
    assert result.returncode == 1
    assert "took more than 0.2 s: worker 7 has a batch" in result.stderr
    assert re.search(r"the main thread is in <string>:\d+ hang", result.stderr)


def test_the_message_has_the_limit_that_was_set_even_if_the_thread_starts_late() -> None:
    result = _run("limit.start(0.3); ctypes.PyDLL(None).usleep(100_000); time.sleep(1000)")
    assert "took more than 0.3 s" in result.stderr


def test_a_cancelled_limit_has_no_effect() -> None:
    # The timeout of 3 s is long enough that `cancel` runs first, even on a busy machine.
    body = "deadline._BACKSTOP = 0.1; limit.start(3); limit.cancel(); limit.start(0)\n"
    result = _run(body + "time.sleep(3.5); print('ok')")
    assert (result.returncode, result.stdout) == (0, "ok\n")


def test_a_shorter_limit_replaces_a_longer_one() -> None:
    result = _run("limit.start(900); limit.start(0.2); limit.start(900); time.sleep(1000)")
    assert result.returncode == 1


def test_an_error_in_the_description_does_not_stop_the_end() -> None:
    result = _run("limit._describe = lambda: 1 / 0\nhang()")
    assert result.returncode == 1
    assert "unknown parts: ZeroDivisionError" in result.stderr


def test_c_code_that_has_the_gil_does_not_stop_the_end() -> None:
    body = "limit.start(0.2); wait_for_backstops(1)\n"
    result = _run(_BACKSTOP_ONLY + body + "ctypes.PyDLL(None).sleep(1000)")
    assert result.returncode == 1
    assert "most recent call first" in result.stderr


def test_c_code_that_has_the_gil_does_not_stop_the_end_at_a_shorter_limit() -> None:
    body = "limit.start(900); limit.start(0.2); wait_for_backstops(2)\n"
    result = _run(_BACKSTOP_ONLY + body + "ctypes.PyDLL(None).sleep(1000)")
    assert result.returncode == 1
    assert "most recent call first" in result.stderr


def test_a_full_pipe_does_not_stop_the_end() -> None:
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b" " * 4096)
        os.set_blocking(writer, True)
        command = [sys.executable, "-c", _PROGRAM + "hang()"]
        with subprocess.Popen(command, stderr=writer) as process:
            assert process.wait(_PATIENCE) == 1
    finally:
        os.close(reader)
        os.close(writer)
