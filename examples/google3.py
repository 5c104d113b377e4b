# SPDX-License-Identifier: Apache-2.0
"""Train on handwritten digits in several processes, with torch_google's libraries.

After each epoch, the first worker saves a checkpoint in memory. At the end, it saves the last
checkpoint to --output, which may be any path that torch_google.gfile supports.
"""

from __future__ import annotations

import os
import time

from absl import app
from absl import flags as absl_flags

from torch_google import flags, gfile, logging, multiprocessing

_WORKERS = absl_flags.DEFINE_integer("workers", 2, "Processes that train together.", lower_bound=1)
_EPOCHS = absl_flags.DEFINE_integer(
    "epochs", 5, "How many times to go over the training digits.", lower_bound=1
)
_OUTPUT = absl_flags.DEFINE_string(
    "output", "", "Directory for the checkpoint, a local path or a URL; empty: write none."
)
flags.define()

CHECKPOINT = "checkpoint.pt"
_LATEST = "memory://digits/latest.pt"
_BATCH_SIZE = 32
_LEARNING_RATE = 3e-3


def main(argv: list[str]) -> None:
    """Start the workers, and log the test accuracy that they reach."""
    if len(argv) > 1:
        raise app.UsageError(f"found the argument {argv[1]!r}, expected flags only")
    start = time.monotonic()
    accuracies = multiprocessing.launch(
        train, _EPOCHS.value, _OUTPUT.value, nproc_per_node=_WORKERS.value
    )
    seconds = time.monotonic() - start
    logging.info("test accuracy %.4f, %d workers, %.1f s", accuracies[0], len(accuracies), seconds)
    if _OUTPUT.value:
        logging.info("%s contains %s", _OUTPUT.value, ", ".join(gfile.ListDir(_OUTPUT.value)))


def train(epochs: int, output: str) -> float:
    """Train on this worker's shard of the digits, and return the test accuracy, 0..1."""
    # Import torch only now, after flag parsing, because flags affect its import.
    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel

    from examples import digits, model, training

    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data, test = digits.split(digits.read(digits.packed()), seed=0)
    network = model.DigitNet()
    together = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(together.parameters(), lr=_LEARNING_RATE)
    order = torch.Generator().manual_seed(0)
    for epoch in range(1, epochs + 1):
        network.train()
        rows = torch.randperm(len(data), generator=order)[: len(data) // world * world]
        for mine in rows[rank::world].split(_BATCH_SIZE):
            batch = data.select(mine)
            loss = nn.functional.cross_entropy(together(batch.images), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        logging.info("epoch %d: loss %.4f", epoch, loss.item())
        if rank == 0:
            torch.save(network.state_dict(), _LATEST)
    if rank == 0:
        network.load_state_dict(torch.load(_LATEST, weights_only=True))
        if output:
            gfile.MakeDirs(output)
            torch.save(network.state_dict(), os.path.join(output, CHECKPOINT))
    accuracy = training.accuracy(network, test)
    distributed.destroy_process_group()
    return accuracy


if __name__ == "__main__":
    multiprocessing.handle_main(main)
