# SPDX-License-Identifier: Apache-2.0
"""`Rank`, the argument of each test case, and functions that compare results with a reference."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class Rank:
    """One of `size` ranks, in a process with an initialized default process group."""

    index: int
    size: int
    device: str  # "tpu", or "cpu" to test torch's own behavior with gloo
    directory: pathlib.Path  # Shared by all ranks, and new unless the test specifies one.

    def part(self, batch: torch.Tensor) -> torch.Tensor:
        """Return this rank's rows of a batch, on the device."""
        return batch.chunk(self.size)[self.index].to(self.device)

    def mean(self, loss: torch.Tensor) -> float:
        """Return the mean of `loss` over all ranks."""
        total = loss.detach().clone()
        dist.all_reduce(total)
        return total.item() / self.size

    def mesh(self, *shape: int, names: tuple[str, ...] | None = None) -> DeviceMesh:
        return dist.init_device_mesh(self.device, shape or (self.size,), mesh_dim_names=names)

    def equals_cpu(
        self, run: Callable[[Rank], Sequence[float]], *, tolerance: float = TOLERANCE
    ) -> float:
        """Call `run` on the CPU and on the device, with the same ranks, and compare the results."""
        on_cpu = run(dataclasses.replace(self, device="cpu"))
        return equal(run(self), on_cpu, tolerance=tolerance)


def equal(
    actual: Sequence[float], expected: Sequence[float], *, tolerance: float = TOLERANCE
) -> float:
    """Return the largest absolute difference between corresponding numbers.

    Raises AssertionError if it exceeds `tolerance`, or if the lengths differ.
    """
    assert len(actual) == len(expected), f"{len(actual)} numbers instead of {len(expected)}"
    differences = [abs(a - e) for a, e in zip(actual, expected, strict=True)]
    largest = max(differences, default=0.0)
    if not largest <= tolerance:  # A NaN also fails this comparison.
        step = next(i for i, d in enumerate(differences) if not d <= tolerance)
        raise AssertionError(
            f"number {step} is {actual[step]!r} instead of {expected[step]!r}; "
            f"the largest difference is {largest:.3g}, the tolerance {tolerance:g}"
        )
    return largest


def same(actual: torch.Tensor, expected: torch.Tensor, *, tolerance: float = TOLERANCE) -> float:
    """Return the largest difference between two tensors.

    Raises AssertionError if it exceeds `tolerance`, or if the shapes or dtypes differ.
    """
    actual = actual.detach().cpu()
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"{actual.dtype}, expected {expected.dtype}"
    return equal(
        actual.double().flatten().tolist(),
        expected.double().flatten().tolist(),
        tolerance=tolerance,
    )
