# SPDX-License-Identifier: Apache-2.0
"""Run a job on this machine, with one torchrun for each machine that the job requests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torch_google.launch import environments
from torch_google.launch.command import LAUNCH_VARIABLES
from torch_google.launch.submit.scheduler import (
    Cancelled,
    Job,
    Processes,
    cancellable,
    say,
)


def run(job: Job) -> int:
    """Run a job until it ends.

    Return its status, or 128 plus the number of the signal that cancelled it.
    """
    env = _environment()
    processes = Processes(sys.stdout)
    with tempfile.TemporaryDirectory(prefix="submit-") as logs:
        try:
            with cancellable(), _reserved_port() as port:
                for index in range(job.machines):
                    variables = {
                        "JOB_COMPLETION_INDEX": str(index),
                        "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": str(port),
                        "PET_NNODES": str(job.machines),
                    }
                    directory = Path(logs, str(index))
                    processes.start(job.command(directory), env | variables)
                ranks = job.machines * job.processes
                say(f"started {job.par.name}: {ranks} ranks on {job.machines} machines, all here")
                status = processes.wait(_Report(job.spare), spare=job.spare)
        except Cancelled as cancelled:
            say(f"{signal.Signals(cancelled.signal).name}: cancelling, which ends all ranks")
            processes.stop()
            say("cancelled")
            return 128 + cancelled.signal
        finally:
            processes.stop()
    say("succeeded" if status == 0 else f"failed with status {status}")
    return status


class _Report:
    """A callback that reports each machine's outcome. spare: how many machines may fail."""

    def __init__(self, spare: int) -> None:
        self._spare = spare

    def __call__(self, machine: int, status: int) -> None:
        if not status:
            say(f"machine {machine} is done")
            return
        self._spare -= 1
        others = "ending the others" if self._spare < 0 else "the others go on"
        say(f"machine {machine} failed with status {status}; {others}")


def _environment() -> dict[str, str]:
    """Return the environment without scheduler variables: submit itself may run in a job."""
    names = {name for environment in environments.ENVIRONMENTS for name in environment.variables}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | LAUNCH_VARIABLES


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """Reserve a port for torchrun, so that no other process gets it.

    This process binds the port but does not listen on it. Both sockets set SO_REUSEADDR, so
    torchrun can bind the port while it is reserved.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]
