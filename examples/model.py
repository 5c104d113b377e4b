# SPDX-License-Identifier: Apache-2.0
"""A classifier of digits with two convolutional and two linear layers: 75,000 parameters."""

from __future__ import annotations

import torch
from torch import nn

from examples import digits


class DigitNet(nn.Module):
    """A network that maps images, float32 [n, 1, 8, 8] in 0..1, to logits, float32 [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        pooled_side = digits.SIDE // 2
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(32 * pooled_side**2, 128),
            nn.ReLU(),
            nn.Linear(128, digits.CLASSES),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(images)
        return logits
