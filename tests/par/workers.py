# SPDX-License-Identifier: Apache-2.0
"""Functions and classes that the tests' child processes import."""

from __future__ import annotations

import pathlib
import sys

import torch
import torch.distributed
from torch import nn
from torch.utils.data import Dataset


class Squares(Dataset[torch.Tensor]):
    """A dataset with the squares of 0 to n-1, each computed in the process that reads it."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index * index])


class TwoLayers(nn.Module):
    """A small network with a branch that TorchScript must preserve."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x).relu()
        if hidden.dim() == 1:
            hidden = hidden.unsqueeze(0)
        result: torch.Tensor = self.second(hidden)
        return result


def add_rank(rank: int, shared: torch.Tensor) -> None:
    """Increment this rank's element of a tensor in shared memory. Spawned processes run this."""
    shared[rank] += rank + 1


def fail(rank: int) -> None:
    raise ValueError(f"worker {rank} says no")


def all_reduce(rank: int, world_size: int, rendezvous: str, results: torch.Tensor) -> None:
    """Join a gloo group through a file rendezvous, and all-reduce a tensor."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size
    )
    value = torch.full((3,), float(rank + 1))
    torch.distributed.all_reduce(value)
    results[rank] = value
    torch.distributed.destroy_process_group()


def main() -> None:
    """All-reduce a tensor as one rank of torchrun, and write the sum to a file in argv[1]."""
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    value = torch.tensor([rank + 1])
    torch.distributed.all_reduce(value)
    pathlib.Path(sys.argv[1], f"rank{rank}").write_text(str(value.item()))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
