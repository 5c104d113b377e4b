# SPDX-License-Identifier: Apache-2.0
"""The registry of test cases, which are functions that all ranks run."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.distributed.rank import Rank

# The modules that define test cases, with their headings in the table of results.
FEATURES = {
    "data_parallel": "DistributedDataParallel",
    "data_parallel_hooks": "DDP's communication hooks, ZeroRedundancyOptimizer",
    "fsdp1": "FullyShardedDataParallel (FSDP1)",
    "fsdp2": "fully_shard (FSDP2)",
    "dtensors": "DTensor",
    "tensor_parallel": "tensor parallel, sequence parallel, loss parallel",
    "context_parallel": "context parallel",
    "pipelines": "torch.distributed.pipelining",
    "meshes": "several kinds at once, on a mesh",
    "checkpoints": "torch.distributed.checkpoint",
    "overlap": "late ranks",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A test case. `run` returns the largest difference from the reference, or raises an error."""

    name: str
    feature: str
    run: Callable[[Rank], float]
    ranks: int
    modes: tuple[str, ...]  # Without modes, only a test that names the case runs it.

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or "").strip().split("\n")[0]


_cases: dict[str, Case] = {}


def case(
    *, ranks: int = 2, modes: tuple[str, ...] = ("strict", "fused")
) -> Callable[[Callable[[Rank], float]], Callable[[Rank], float]]:
    """Register a test case, to run with `ranks` ranks in each of the eager modes `modes`."""

    def register(run: Callable[[Rank], float]) -> Callable[[Rank], float]:
        name = run.__name__
        if name in _cases:
            raise ValueError(f"{run.__module__}: a second case {name!r}. Rename one of the two")
        feature = run.__module__.rpartition(".")[2]
        _cases[name] = Case(name, feature, run, ranks, modes)
        return run

    return register


def find(name: str) -> Case:
    return all_cases()[name]


def all_cases() -> dict[str, Case]:
    """Return all test cases by name, in the order of FEATURES."""
    for module in FEATURES:
        importlib.import_module(f"tests.distributed.{module}")
    return _cases


def of_ranks(*ranks: int) -> list[tuple[str, str]]:
    """Return the (name, mode) pairs of all test cases for one of the given numbers of ranks."""
    return [
        (each.name, mode)
        for each in all_cases().values()
        if each.ranks in ranks
        for mode in each.modes
    ]
