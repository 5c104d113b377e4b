# SPDX-License-Identifier: Apache-2.0
"""A loader that uses torchdata. Its workers are forked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.data import records

BATCH = 4
EPOCHS = 2
_SEED = 3


class TorchdataLoader:
    """torchdata's StatefulDataLoader over `Records`, shuffled and batched."""

    def __init__(self, path: str, workers: int) -> None:
        self._generator = torch.Generator()
        self._loader = StatefulDataLoader(
            records.Records(path),
            batch_size=BATCH,
            shuffle=True,
            num_workers=workers,
            generator=self._generator,
        )
        self._epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        """Yield each batch as the list of its records' indices."""
        while self._epoch < EPOCHS:
            # A resumed epoch draws different random numbers, so seed each epoch separately.
            # Otherwise the order of the next epoch would change.
            self._generator.manual_seed(_SEED + self._epoch)
            for batch in self._loader:
                yield batch[:, 0].tolist()
            self._epoch += 1

    def state(self) -> Any:
        """Return the loader's state, including its generator's, for torch.save."""
        return {"epoch": self._epoch, "loader": self._loader.state_dict()}

    def resume(self, state: Any) -> None:
        """Restore `state`, and continue with the next batch."""
        self._epoch = state["epoch"]
        self._loader.load_state_dict(state["loader"])
