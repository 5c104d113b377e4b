# SPDX-License-Identifier: Apache-2.0
"""The dataset that the measured DataLoader worker reads."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset


class Twos(Dataset[torch.Tensor]):
    """A dataset of one tensor, which is computed in the process that reads it."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2) + 1
