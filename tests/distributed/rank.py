# SPDX-License-Identifier: Apache-2.0
"""What a case knows about its rank, and how it compares results."""

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
    """One of `size` processes. The default process group exists."""

    index: int
    size: int
    device: str  # "tpu", or "cpu" to see what torch does with gloo
    directory: pathlib.Path  # empty at the start, the same for all ranks

    def part(self, batch: torch.Tensor) -> torch.Tensor:
        """Return this rank's rows of a batch, on the device."""
        return batch.chunk(self.size)[self.index].to(self.device)

    def mean(self, loss: torch.Tensor) -> float:
        """Return the mean over the ranks."""
        total = loss.detach().clone()
        dist.all_reduce(total)
        return total.item() / self.size

    def mesh(self, *shape: int, names: tuple[str, ...] | None = None) -> DeviceMesh:
        return dist.init_device_mesh(self.device, shape or (self.size,), mesh_dim_names=names)

    def equals_cpu(
        self, run: Callable[[Rank], Sequence[float]], *, tolerance: float = TOLERANCE
    ) -> float:
        """Run on the device, and on the CPU with the same ranks and gloo; compare the numbers."""
        on_cpu = run(dataclasses.replace(self, device="cpu"))
        return equal(run(self), on_cpu, tolerance=tolerance)


def equal(
    actual: Sequence[float], expected: Sequence[float], *, tolerance: float = TOLERANCE
) -> float:
    """Return the largest difference. Raises AssertionError if it is too large."""
    assert len(actual) == len(expected), f"{len(actual)} numbers instead of {len(expected)}"
    differences = [abs(a - e) for a, e in zip(actual, expected, strict=True)]
    largest = max(differences, default=0.0)
    if not largest <= tolerance:  # also if it is NaN
        step = next(i for i, d in enumerate(differences) if not d <= tolerance)
        raise AssertionError(
            f"number {step} is {actual[step]!r} instead of {expected[step]!r}; "
            f"the largest difference is {largest:.3g}, the tolerance {tolerance:g}"
        )
    return largest


def same(actual: torch.Tensor, expected: torch.Tensor, *, tolerance: float = TOLERANCE) -> float:
    """Return the largest difference of two tensors. Raises AssertionError if it is too large."""
    actual = actual.detach().cpu()
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"{actual.dtype}, expected {expected.dtype}"
    return equal(
        actual.double().flatten().tolist(),
        expected.double().flatten().tolist(),
        tolerance=tolerance,
    )
