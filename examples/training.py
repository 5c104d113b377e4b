# SPDX-License-Identifier: Apache-2.0
"""A training loop with Adam and cross entropy, deterministic for a given seed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from examples import digits, model


class TrainingError(RuntimeError):
    """Raised if the user's options make training fail. The message is one line for the user."""


# The eager modes of the `tpu` device, and "compile", which applies torch.compile on any device.
MODES = ("strict", "fused", "debug", "compile")


@dataclasses.dataclass(frozen=True)
class Options:
    """Training options. Together with the data and the device, they determine the result."""

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    device: str
    mode: str | None = None  # one of MODES, only for the `tpu` device
    threads: int = 1  # the number of torch's CPU threads


@dataclasses.dataclass(frozen=True)
class Result:
    """The trained network, the mean training loss of each epoch, and the test accuracy, 0..1."""

    network: model.DigitNet
    losses: list[float]
    accuracy: float


def usable_device(name: str) -> torch.device:
    """Return the device called `name`. Raises TrainingError if a trial addition on it fails."""
    try:
        device = torch.device(name)
        works = torch.ones(1, device=device).add(1).item() == 2
    # The error for an unusable device depends on the backend. torch.device() and reading a meta
    # tensor raise RuntimeError. A build of torch without CUDA raises AssertionError. If a device
    # needs a module that is missing, torch raises ImportError.
    except (RuntimeError, AssertionError, ImportError) as error:
        raise TrainingError(
            f"--device={name}: this program cannot compute there ({_first_sentence(error)}). "
            "Use --device=cpu."
        ) from error
    if not works:
        raise TrainingError(f"--device={name}: 1 + 1 is not 2 there. Use --device=cpu.")
    return device


def train(
    data: digits.Digits,
    options: Options,
    *,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> Result:
    """Train on four fifths of the rows and test on the rest.

    Call `on_epoch(epoch, loss)` after each epoch. If there is a process group, each batch is split
    among its processes, which return the same result.
    """
    device = usable_device(options.device)
    # The default is one thread, so that sums do not depend on the number of cores. More threads do
    # not speed up batches this small. On a busy machine, they wait for each other and take twenty
    # times as long.
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)
    training, test = (part.to(device) for part in digits.split(data, seed=options.seed))
    network = model.DigitNet().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    shuffle = torch.Generator().manual_seed(options.seed)
    together = DistributedDataParallel(network) if _ranks() > 1 else network
    run = torch.compile(together) if options.mode == "compile" else together
    losses = []
    with _mode(device, options.mode):
        for epoch in range(1, options.epochs + 1):
            loss = _epoch(run, optimizer, _batches(training, options.batch_size, shuffle))
            if not math.isfinite(loss):
                raise TrainingError(
                    f"the loss became {loss} in epoch {epoch} with --learning_rate="
                    f"{options.learning_rate:g}. Use a smaller one."
                )
            losses.append(loss)
            on_epoch(epoch, loss)
        return Result(network, losses, accuracy(network, test))


@torch.no_grad()
def accuracy(network: nn.Module, data: digits.Digits) -> float:
    """Return the fraction of `data` that `network` classifies correctly."""
    network.eval()
    correct = network(data.images).argmax(dim=1) == data.labels
    return float(correct.float().mean())


def _epoch(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator[digits.Digits]
) -> float:
    """Train on all batches once, and return the mean loss per row."""
    network.train()
    total, rows = 0.0, 0
    for batch in batches:
        loss = nn.functional.cross_entropy(network(batch.images), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
        rows += len(batch)
    if _ranks() > 1:
        sums = torch.tensor([total, rows])
        distributed.all_reduce(sums)
        total, rows = sums.tolist()
    return total / rows


def _batches(data: digits.Digits, size: int, shuffle: torch.Generator) -> Iterator[digits.Digits]:
    # Index once per batch, because a DataLoader would copy row by row.
    order = torch.randperm(len(data), generator=shuffle).to(data.labels.device)
    ranks = _ranks()
    for rows in torch.split(order, size):
        if ranks == 1:
            yield data.select(rows)
        elif len(rows) >= ranks:
            yield data.select(rows[distributed.get_rank() :: ranks])


def _ranks() -> int:
    """Return the world size, or 1 if there is no process group."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return 1


def _mode(device: torch.device, mode: str | None) -> contextlib.AbstractContextManager[None]:
    if mode in (None, "compile"):
        return contextlib.nullcontext()
    if device.type != "tpu":
        raise TrainingError(
            f"--mode={mode}: only the tpu device has it, but --device is {device.type}. "
            "Use --device=tpu, or leave --mode out."
        )
    eager: contextlib.AbstractContextManager[None] = torch.tpu.eager_mode(mode)
    return eager


def _first_sentence(error: BaseException) -> str:
    first_line = next(iter(str(error).splitlines()), type(error).__name__)
    return first_line.split(". ")[0].rstrip(".")
