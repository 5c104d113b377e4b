# SPDX-License-Identifier: Apache-2.0
"""A program that trains a small model with dropout, in any number of ranks, and resumes.

Its arguments are a directory, and optionally wait-at=STEP or hang-in-save=NUMBER. RANK in the
directory's name is replaced by the rank. Rank 0 appends each step's loss to DIRECTORY/losses as
JSON. With wait-at, each rank writes its process id to a file after step STEP, and waits for a
signal or for the file DIRECTORY/go. With hang-in-save, the save with that number (from 1) writes
its data and then hangs before it replaces the metadata.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from torch_google import gfile, resume

STEPS = 12
EVERY = 4
ROWS = 24  # divisible by any number of ranks up to 4, so that the mean loss is exact


def losses(directory: Path, wait_at: int = -1) -> None:
    """Run the remaining training steps. The losses do not depend on the number of ranks."""
    torch.set_num_threads(1)
    rank, size = 0, 1
    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
        rank, size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    if size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    shuffle = torch.Generator().manual_seed(1)
    state = resume.State(model, optimizer, {"schedule": schedule, "shuffle": shuffle})
    for step in resume.steps(STEPS, state, directory / "checkpoint", every=EVERY):
        rows = torch.rand(ROWS, 4, generator=shuffle)
        # All ranks draw the same dropout mask for all rows, because they have the same seed.
        rows = functional.dropout(rows, 0.5).chunk(size)[rank]
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        mean = loss.detach().clone()
        if size > 1:
            distributed.all_reduce(mean)
            mean /= size
        if rank == 0:
            with (directory / "losses").open("a") as file:
                file.write(json.dumps({"loss": mean.item(), "ranks": size, "step": step}) + "\n")
        if step == wait_at:
            _write_pid(directory / f"waiting{rank}")
            _wait(directory / "go")
    if size > 1:
        distributed.destroy_process_group()


def _wait(path: Path) -> None:
    """Wait until a file exists or a signal arrives."""
    signals, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    while not path.exists() and not select.select([signals], [], [], 0.01)[0]:
        pass


def _hang_in_save(directory: Path, number: int) -> None:
    """Make save number `number` hang before it replaces the metadata of the old checkpoint."""
    finish = gfile.CheckpointWriter.finish
    saves = 0

    def hang(self: Any, metadata: Any, results: Any) -> None:
        nonlocal saves
        saves += 1
        if saves == number:
            _write_pid(directory / "saving")
            time.sleep(600)
        finish(self, metadata, results)

    gfile.CheckpointWriter.finish = hang


def _write_pid(path: Path) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(str(os.getpid()))
    temporary.rename(path)


def main() -> None:
    options = dict(argument.split("=") for argument in sys.argv[2:])
    directory = Path(sys.argv[1].replace("RANK", os.environ.get("RANK", "0")))
    if "hang-in-save" in options:
        _hang_in_save(directory, int(options["hang-in-save"]))
    losses(directory, int(options.get("wait-at", -1)))


if __name__ == "__main__":
    main()
