# SPDX-License-Identifier: Apache-2.0
"""Run the program as a module or in a child process: `starts.py KIND`.

If KIND starts a child process, a second output line shows the child's CPU time in seconds and its
peak memory in KiB.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable


def module() -> None:
    """Run the program in this process."""
    from benchmarks.par_startup import program

    program.main()


def spawn() -> None:
    """Run the program in a child process that multiprocessing spawns."""
    child = multiprocessing.get_context("spawn").Process(target=module)
    child.start()
    child.join()
    print_children()


def loader() -> None:
    """Compute the program's tensor in a DataLoader worker."""
    from torch.utils.data import DataLoader

    from benchmarks.par_startup.dataset import Twos

    batches = list(DataLoader(Twos(), num_workers=1, multiprocessing_context="spawn"))
    print(batches[0][0])
    print_children()


def torchrun() -> None:
    """Run the program in a torchrun worker."""
    from torch.distributed import run

    run.main(["--standalone", "--nproc-per-node=1", "-m", "benchmarks.par_startup.program"])
    print_children()


def print_children() -> None:
    """Print the CPU time in seconds and the peak memory in KiB of the child processes so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{usage.ru_utime + usage.ru_stime:.6f} {usage.ru_maxrss}")


KINDS: dict[str, Callable[[], None]] = {
    "module": module,
    "spawn": spawn,
    "loader": loader,
    "torchrun": torchrun,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]]()
