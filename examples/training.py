# SPDX-License-Identifier: Apache-2.0
"""The training loop: Adam on cross entropy, the same result for the same seed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from examples import digits, model


class TrainingError(RuntimeError):
    """Training went wrong because of how it was asked for; the message is one line."""


# How the device tpu runs operators; with "compile", torch.compile makes the network one program.
MODES = ("strict", "fused", "debug", "compile")


@dataclasses.dataclass(frozen=True)
class Options:
    """What decides the result, with the data and the machine's arithmetic."""

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    device: str
    mode: str | None = None  # of MODES, for the device tpu
    threads: int = 1  # of torch, on the CPU


@dataclasses.dataclass(frozen=True)
class Result:
    """`losses` has one mean training loss per epoch; `accuracy` is on the test part, 0..1."""

    network: model.DigitNet
    losses: list[float]
    accuracy: float


def usable_device(name: str) -> torch.device:
    """The device of that name, after one sum on it. Raises `TrainingError`."""
    try:
        device = torch.device(name)
        works = torch.ones(1, device=device).add(1).item() == 2
    # Each backend says "not here" with an exception of its own choice: torch.device() raises
    # RuntimeError, CUDA AssertionError, meta tensors RuntimeError, others NotImplementedError.
    except (RuntimeError, AssertionError, NotImplementedError) as error:
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
    """Trains on four rows in five, tests on the rest. `on_epoch(epoch, loss)` sees progress."""
    device = usable_device(options.device)
    # One, unless asked: batches this small gain nothing from a second thread, and threads that wait
    # for each other on a busy machine take twenty times as long. It also gives the same sums for any
    # number of cores.
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)
    training, test = (part.to(device) for part in digits.split(data, seed=options.seed))
    network = model.DigitNet().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    shuffle = torch.Generator().manual_seed(options.seed)
    run = torch.compile(network) if options.mode == "compile" else network
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
    """The part of `data` that `network` names right, 0..1."""
    network.eval()
    right = network(data.images).argmax(dim=1) == data.labels
    return float(right.float().mean())


def _epoch(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator[digits.Digits]
) -> float:
    """One pass over the data; the mean loss per row."""
    network.train()
    total, rows = 0.0, 0
    for batch in batches:
        loss = nn.functional.cross_entropy(network(batch.images), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
        rows += len(batch)
    return total / rows


def _batches(data: digits.Digits, size: int, shuffle: torch.Generator) -> Iterator[digits.Digits]:
    # A DataLoader would copy row by row what one indexing operation copies at once.
    order = torch.randperm(len(data), generator=shuffle).to(data.labels.device)
    for rows in torch.split(order, size):
        yield data.select(rows)


def _mode(device: torch.device, mode: str | None) -> contextlib.AbstractContextManager[None]:
    if mode in (None, "compile"):
        return contextlib.nullcontext()
    if device.type != "tpu":
        raise TrainingError(
            f"--mode={mode}: only the device tpu has it, and --device is {device.type}. "
            "Use --device=tpu, or leave --mode out."
        )
    eager: contextlib.AbstractContextManager[None] = torch.tpu.eager_mode(mode)
    return eager


def _first_sentence(error: BaseException) -> str:
    first_line = next(iter(str(error).splitlines()), type(error).__name__)
    return first_line.split(". ")[0].rstrip(".")
