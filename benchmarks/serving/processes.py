# SPDX-License-Identifier: Apache-2.0
"""Start a server in its own session, and measure all processes in that session."""

from __future__ import annotations

import dataclasses
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_START_TIMEOUT = 300.0


def free_port() -> int:
    """Return a TCP port that is currently free."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[int]:
    """Start a server, wait until it is healthy, and yield its session ID. Stop it on exit."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        _wait_until_healthy(process, port)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            for pid in _session(process.pid):  # LitServe's processes survive SIGTERM
                os.kill(pid, signal.SIGKILL)


def cpu_seconds(session: int) -> float:
    """Return the total CPU time of all processes in a session."""
    return sum(int(fields[11]) + int(fields[12]) for fields in _session(session).values()) / _TICKS


@dataclasses.dataclass(frozen=True)
class Sample:
    """The resource usage of one process.

    The memory is anonymous memory only. Resident memory would also include file-backed pages, which
    the kernel can reclaim at any time.
    """

    anonymous_mib: float
    descriptors: int
    threads: int


def sample(session: int) -> dict[int, Sample]:
    """Return the resource usage of each process in a session, keyed by process ID."""
    samples = {}
    for pid in _session(session):
        try:
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has just exited
        rows = dict(line.split(":", 1) for line in status.splitlines())
        anonymous = int(rows["RssAnon"].split()[0]) / 1024
        samples[pid] = Sample(anonymous, descriptors, int(rows["Threads"]))
    return samples


def _session(session: int) -> dict[int, list[str]]:
    """Return the fields after the name in /proc/PID/stat, for each process in a session."""
    fields_by_pid = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            fields_by_pid[int(path.parent.name)] = fields
    return fields_by_pid


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise TimeoutError(f"the server is not healthy after {_START_TIMEOUT:g} s")
