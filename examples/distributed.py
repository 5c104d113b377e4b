# SPDX-License-Identifier: Apache-2.0
"""Train a small transformer on handwritten digits, in several processes that torchrun starts.

--strategy selects how the work is split among the processes. All strategies compute the same
losses. With --checkpoint, training that was stopped by SIGTERM or by the loss of a process can
resume, even with fewer processes.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator

from absl import app
from absl import flags as absl_flags

from torch_google import flags, logging, multiprocessing

_STRATEGIES = ("single", "spmd", "ddp", "fsdp", "tp", "2d", "pipeline")
_ONE_PROCESS = ("single", "spmd")
_STRATEGY = absl_flags.DEFINE_enum(
    "strategy",
    "ddp",
    _STRATEGIES,
    "How the processes share the work: data parallel (ddp, fsdp), tensor parallel (tp), fsdp over "
    "pairs with tp (2d), or some layers each (pipeline). In one process: one device (single), or "
    "parameters and batches split over all tpu devices (spmd).",
)
_MODEL = absl_flags.DEFINE_enum(
    "model", "digits", ("digits", "gpt"), "Reads the digits, or draws them pixel by pixel."
)
_DEVICE = absl_flags.DEFINE_enum("device", "tpu", ("tpu", "cpu"), "Device to compute on.")
_MODE = absl_flags.DEFINE_enum(
    "mode",
    "strict",
    ("strict", "fused", "compile"),
    "How --device=tpu executes operators: one by one (strict) or in larger programs (fused). On "
    "both devices, compile uses torch.compile for each block.",
)
_STEPS = absl_flags.DEFINE_integer("steps", 200, "Steps of the optimizer.", lower_bound=1)
_BATCH_SIZE = absl_flags.DEFINE_integer(
    "batch_size", 32, "Digits per step, in all processes together.", lower_bound=1
)
_LEARNING_RATE = absl_flags.DEFINE_float(
    "learning_rate", 3e-3, "Step size of the AdamW optimizer.", lower_bound=0.0
)
_SEED = absl_flags.DEFINE_integer(
    "seed", 0, "Determines the initial weights and the order of digits.", lower_bound=0
)
_CHECKPOINT = absl_flags.DEFINE_string(
    "checkpoint",
    "",
    "Directory to resume from and save to: a path that all machines share, or a store's URL.",
)
_SAVE_EVERY = absl_flags.DEFINE_integer(
    "save_every", 50, "Steps between two saves to --checkpoint; 0 saves at the end.", lower_bound=0
)
flags.define()

_LOGGED = 10  # the number of times that the loss is logged


def main(argv: list[str]) -> None:
    """Check the flags, join the process group, and train."""
    if len(argv) > 1:
        raise app.UsageError(f"found the argument {argv[1]!r}, expected flags only")
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    _check(ranks)
    with _joined(ranks) as is_first:
        start = time.monotonic()
        loss = None
        for step, loss in _losses():
            if is_first and (step + 1) % max(_STEPS.value // _LOGGED, 1) == 0:
                logging.info("step %d: loss %.6f", step + 1, loss)
        if is_first and loss is None:
            logging.info("%s: all %d steps are done", _CHECKPOINT.value, _STEPS.value)
        elif is_first:
            logging.info(
                "%s by %s in %d processes on %s: loss %.6f, %.1f s",
                _MODEL.value,
                _STRATEGY.value,
                ranks,
                _DEVICE.value,
                loss,
                time.monotonic() - start,
            )


def _check(ranks: int) -> None:
    strategy = _STRATEGY.value
    if strategy not in _ONE_PROCESS and "WORLD_SIZE" not in os.environ:
        raise app.UsageError(
            f"--strategy={strategy} needs several processes: start this program with torchrun, or "
            f"give --strategy={_ONE_PROCESS[0]}"
        )
    if strategy in _ONE_PROCESS and ranks > 1:
        raise app.UsageError(f"--strategy={strategy}, but torchrun has started {ranks} processes")
    if strategy == "spmd" and _DEVICE.value != "tpu":
        raise app.UsageError(f"--strategy=spmd: found --device={_DEVICE.value}, expected tpu")
    if _BATCH_SIZE.value % ranks:
        raise app.UsageError(
            f"--batch_size={_BATCH_SIZE.value} cannot be shared by {ranks} processes evenly"
        )
    if strategy in ("tp", "pipeline") and ranks not in (1, 2, 4):
        raise app.UsageError(f"--strategy={strategy}: found {ranks} processes, expected 1, 2 or 4")
    if strategy == "2d" and ranks % 2:
        raise app.UsageError(f"--strategy=2d: found {ranks} processes, expected an even number")


@contextlib.contextmanager
def _joined(ranks: int) -> Iterator[bool]:
    """Join the process group if torchrun started this process, and leave it at the end.

    Yield whether this process is rank 0.
    """
    # Import torch only now, after flag parsing, because flags affect its import.
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    if "WORLD_SIZE" not in os.environ:
        yield True
        return
    distributed.init_process_group(distributed.get_default_backend_for_device(_DEVICE.value))
    try:
        yield distributed.get_rank() == 0
    finally:
        distributed.destroy_process_group()


def _losses() -> Iterator[tuple[int, float]]:
    """Train, and yield the number and loss of each step. All processes yield the same losses."""
    import torch

    from examples import digits, distributed_models, distributed_strategies
    from torch_google import resume

    device = torch.device(_DEVICE.value)
    if device.type == "tpu" and _MODE.value != "compile":
        torch.tpu.set_eager_mode(_MODE.value)
    task = distributed_models.TASKS[_MODEL.value](digits.read(digits.packed()))
    torch.manual_seed(_SEED.value)  # All processes must start with the same weights.
    model = task.new_model().to(device)
    if _MODE.value == "compile":
        for layer in model:
            if isinstance(layer, distributed_models.Block):
                layer.compile()
    share = distributed_strategies.STRATEGIES[_STRATEGY.value](model, device)
    # With tp, some parameters are DTensors and others are plain tensors. foreach operators do not
    # accept a mix of the two.
    optimizer = torch.optim.AdamW(share.parameters, lr=_LEARNING_RATE.value, foreach=False)
    shuffle = torch.Generator().manual_seed(_SEED.value)
    steps: Iterable[int] = range(_STEPS.value)
    if _CHECKPOINT.value:
        state = resume.State(share.module, optimizer, {"shuffle": shuffle})
        steps = resume.steps(_STEPS.value, state, _CHECKPOINT.value, every=_SAVE_EVERY.value)
    for step in steps:
        rows = torch.randint(len(task.targets), (_BATCH_SIZE.value,), generator=shuffle)
        loss = share.backward(task.inputs[rows], task.targets[rows])
        optimizer.step()
        optimizer.zero_grad()
        yield step, loss.item()


if __name__ == "__main__":
    multiprocessing.handle_main(main)
