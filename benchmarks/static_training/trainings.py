# SPDX-License-Identifier: Apache-2.0
"""The training runs in `CASES`, as functions that warm up and return the measured cost."""

from __future__ import annotations

import functools
import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.static_training.cases import CASES
from benchmarks.tpu_eager.models import workload
from examples import digits, training

# The number of warm-up steps, during which torch's libraries select and generate kernels.
_WARM = 3


@dataclass(frozen=True)
class Cost:
    """The CPU and wall time of one epoch or step, in seconds, and the last loss."""

    cpu: float
    wall: float
    loss: float


def digits_training(count: int, *, threads: int, data: pathlib.Path | None) -> Cost:
    """Train the network from examples/ for `count` epochs. `data` defaults to the PAR's dataset."""
    rows = digits.read(data or digits.packed())

    def epochs(number: int) -> float:
        options = training.Options(
            epochs=number,
            batch_size=32,
            learning_rate=1e-3,
            seed=0,
            device="cpu",
            threads=threads,
        )
        return training.train(rows, options).losses[-1]

    epochs(1)
    return _timed(lambda: epochs(count), count)


def workload_training(name: str, count: int, *, threads: int, data: pathlib.Path | None) -> Cost:
    """Train the workload `name` for `count` steps, always with the same batch."""
    del data  # The batch is generated from a seed instead.
    torch.set_num_threads(threads)
    work = workload(name)
    optimizer = work.optimizer(work.model)

    def steps(number: int) -> float:
        last = 0.0
        for _ in range(number):
            optimizer.zero_grad()
            loss = work.loss(work.model, work.inputs, work.targets)
            loss.backward()
            optimizer.step()
            last = loss.item()
        return last

    steps(_WARM)
    return _timed(lambda: steps(count), count)


TRAININGS: dict[str, Callable[..., Cost]] = {
    "digits": digits_training,
    "gpt": functools.partial(workload_training, "gpt"),
    "resnet18": functools.partial(workload_training, "resnet18"),
}
assert TRAININGS.keys() == CASES.keys()


def _timed(work: Callable[[], float], count: int) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    loss = work()
    return Cost((time.process_time() - cpu) / count, (time.perf_counter() - wall) / count, loss)
