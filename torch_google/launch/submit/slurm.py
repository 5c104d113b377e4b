# SPDX-License-Identifier: Apache-2.0
"""Run a job with Slurm's srun, which allocates machines, shows all output and waits for the job."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from torch_google.launch.command import LAUNCH_VARIABLES
from torch_google.launch.submit.scheduler import (
    Cancelled,
    Job,
    Processes,
    SubmitError,
    cancellable,
    say,
)


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
    processes = Processes(sys.stdout)
    try:
        with cancellable():
            processes.start(command(job, options), dict(os.environ) | LAUNCH_VARIABLES)
            say(f"asked Slurm for {job.machines} machines for {job.par.name}")
            status = processes.wait()
    except Cancelled as cancelled:
        say(f"{signal.Signals(cancelled.signal).name}: cancelling the job")
        processes.stop()  # srun cancels its job when it gets SIGTERM
        say("cancelled")
        return 128 + cancelled.signal
    finally:
        processes.stop()
    say("succeeded" if status == 0 else f"failed with status {status}")
    return status
