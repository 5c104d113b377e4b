# SPDX-License-Identifier: Apache-2.0
"""Run a job with Slurm's srun, which allocates machines, shows all output and waits for the job."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from pathlib import Path

from torch_google.launch.command import LAUNCH_VARIABLES
from torch_google.launch.hostlist import hosts
from torch_google.launch.submit.scheduler import (
    Cancelled,
    Job,
    Processes,
    SubmitError,
    cancellable,
    say,
)

# srun's messages about a task that failed and a machine that was lost. srun's own status is the
# highest one of all tasks, so it may be that of a task that Slurm killed after another one failed.
_SIGNALS = {text: number for number in signal.valid_signals() if (text := signal.strsignal(number))}
_FAILED = re.compile(
    r"srun: error: (\S+): tasks? [\d,-]+: "
    rf"(?:Exited with exit code (\d+)|({'|'.join(map(re.escape, _SIGNALS))})(?: \(core dumped\))?)"
)
_LOST = re.compile(r"srun: error: Node failure on (\S+)")


def command(job: Job, options: list[str]) -> list[str]:
    """Return the srun command for a job. options: additional options for srun."""
    # By default, one failed task ends the job, but an elastic job continues without it.
    lost = ["--kill-on-bad-exit=1"] if job.fewest is None else ["--kill-on-bad-exit=0", "--no-kill"]
    return [
        "srun",
        f"--nodes={job.machines}",
        "--ntasks-per-node=1",  # torchrun starts the other processes of a machine
        *lost,
        "--quit-on-interrupt",
        "--unbuffered",
        f"--job-name={job.par.stem}",
        *options,
        *job.command(Path("/tmp")),
    ]


def run(job: Job, options: list[str]) -> int:
    """Run a job until it ends.

    Return its status, or 128 plus the number of the signal that cancelled it. Raises
    SubmitError if this machine does not belong to a Slurm cluster.
    """
    if shutil.which("srun") is None:
        raise SubmitError("srun is not on PATH; submit from a machine of the Slurm cluster")
    failures = Failures(job.spare)
    processes = Processes(sys.stdout, failures.read)
    try:
        with cancellable():
            processes.start(command(job, options), dict(os.environ) | LAUNCH_VARIABLES)
            say(f"asked Slurm for {job.machines} machines for {job.par.name}")
            status = failures.status(processes.wait())
    except Cancelled as cancelled:
        say(f"{signal.Signals(cancelled.signal).name}: cancelling the job")
        processes.stop()  # srun cancels its job when it gets SIGTERM
        say("cancelled")
        return 128 + cancelled.signal
    finally:
        processes.stop()
    say("succeeded" if status == 0 else f"failed with status {status}")
    return status


class Failures:
    """The machines on which a job failed, in order, with their statuses, from srun's messages.

    spare: how many machines may fail without ending the job.
    """

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self._statuses: dict[str, int] = {}

    def read(self, line: str) -> None:
        """Note the failures in a line of srun's output. Other lines have no effect."""
        line = line.rstrip("\n")
        if match := _FAILED.fullmatch(line):
            self._note(match[1], int(match[2]) if match[2] else 128 + _SIGNALS[match[3]])
        elif match := _LOST.fullmatch(line):
            self._note(match[1], 128 + signal.SIGKILL)

    def status(self, status: int) -> int:
        """Return the job's status. status: that of srun, used if no machine failed."""
        if not self._statuses:
            return status
        return 0 if len(self._statuses) <= self._spare else next(iter(self._statuses.values()))

    def _note(self, names: str, status: int) -> None:
        for name in hosts(names):
            if name in self._statuses:
                continue
            self._statuses[name] = status
            failed = len(self._statuses)
            if failed <= self._spare + 1:  # after that, Slurm kills the others; do not list them
                others = "the others go on" if failed <= self._spare else "ending the others"
                say(f"machine {name} failed with status {status}; {others}")
