# SPDX-License-Identifier: Apache-2.0
"""A program that adds up `rank + 1` over all ranks, and prints the sum and other values as JSON.

The last argument may be one of these:
fail-in-rank-1 makes one process fail.
wait-with-pid-in=DIR makes each process create a file in DIR, named after its process id, and wait.
fail-once-in=DIR makes rank 1 fail, unless it has failed before. All ranks fail if they find the
key-value store of the previous start.
lose-machine-1 kills torchrun and its process on one machine, as if the machine had vanished.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import distributed


def main() -> None:
    distributed.init_process_group("gloo")
    value = torch.tensor([float(distributed.get_rank() + 1)])
    distributed.all_reduce(value)
    _misbehave(sys.argv[-1])
    row = {
        "arguments": sys.argv[1:],
        "doors": sorted(name for name in os.environ if name.startswith("PAR_")),
        "rank": distributed.get_rank(),
        "sum": value.item(),
    }
    # Write the line in one call, so that it does not interleave with other processes' lines.
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
    distributed.destroy_process_group()


def _misbehave(argument: str) -> None:
    if argument == "fail-in-rank-1" and distributed.get_rank() == 1:
        raise SystemExit("asked to fail")
    if argument == "lose-machine-1" and distributed.get_world_size() == 2:
        # Identify the machine by its index: in an elastic job, torchrun may give it any rank.
        if os.environ["JOB_COMPLETION_INDEX"] == "1":
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        distributed.barrier()
    name, _, directory = argument.partition("=")
    if name == "wait-with-pid-in":
        Path(directory, f"{os.getpid()}.pid").touch()
        time.sleep(600)
    if name == "fail-once-in":
        _fail_once(Path(directory, "failed"))


def _fail_once(failed: Path) -> None:
    store = distributed.distributed_c10d._get_default_store()
    if store.check(["failed"]):
        raise SystemExit("found the store of the previous start")
    if distributed.get_rank() == 1 and not failed.exists():
        store.set("failed", "")
        failed.touch()
        raise SystemExit("asked to fail once")
    distributed.barrier()  # if rank 1 has failed, this fails, so that all ranks are started again


if __name__ == "__main__":
    main()
