# SPDX-License-Identifier: Apache-2.0
"""Models that need only torch: smaller versions of the TorchBench models with the same names."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from benchmarks.models.model import Model, Work
from benchmarks.models.zoo import losses


def _dcgan() -> Work:
    """DCGAN's discriminator."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)]
    for channels in (32, 64, 128):
        layers += [
            nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.LeakyReLU(0.2),
        ]
    module = nn.Sequential(*layers, nn.Conv2d(256, 1, 4, bias=False), nn.Sigmoid())
    return Work(module, (torch.randn(24, 3, 64, 64),), torch.rand(24, 1, 1, 1), losses.squares)


class Recommender(nn.Module):
    """DLRM: embeddings and a dense network, whose pairwise products feed a second network."""

    def __init__(self, *, tables: int = 8, rows: int = 20_000, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        for table in self.tables:
            nn.init.uniform_(table.weight, -(rows**-0.5), rows**-0.5)
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("lower", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers: torch.Tensor, bags: torch.Tensor) -> torch.Tensor:
        dense = self.dense(numbers)
        parts = [table(bag) for table, bag in zip(self.tables, bags.unbind(0), strict=True)]
        stacked = torch.stack([dense, *parts], dim=1)
        products = stacked @ stacked.transpose(1, 2)
        pairs = products[:, self.lower[0], self.lower[1]]
        return self.top(torch.cat([dense, pairs], dim=1))


def _dlrm() -> Work:
    bags = torch.randint(0, 20_000, (8, 4096, 4))
    return Work(Recommender(), (torch.randn(4096, 13), bags), torch.rand(4096, 1), losses.squares)


class UNet(nn.Module):
    """pytorch_unet with three levels."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        a, b, c = channels, 2 * channels, 4 * channels
        self.down = nn.ModuleList([_block(3, a), _block(a, b), _block(b, c)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(c, b, 2, 2), nn.ConvTranspose2d(b, a, 2, 2)])
        self.up = nn.ModuleList([_block(2 * b, b), _block(2 * a, a)])
        self.head = nn.Conv2d(a, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down[0](x)
        second = self.down[1](nn.functional.max_pool2d(first, 2))
        x = self.down[2](nn.functional.max_pool2d(second, 2))
        for skip, grow, up in zip((second, first), self.grow, self.up, strict=True):
            x = up(torch.cat([skip, grow(x)], dim=1))
        return self.head(x)


def _block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def _unet() -> Work:
    return Work(UNet(), (torch.randn(4, 3, 64, 64),), torch.randn(4, 2, 64, 64), losses.squares)


class Recurrent(nn.Module):
    """tts_angular: a stack of LSTMs over frames of speech, and a normalized embedding."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, width, num_layers=3, batch_first=True)
        self.head = nn.Linear(width, 64)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        output, _ = self.lstm(frames)
        return nn.functional.normalize(self.head(output[:, -1]), dim=1)


def _tts_angular() -> Work:
    return Work(Recurrent(), (torch.randn(16, 64, 40),), torch.randn(16, 64), losses.squares)


class Encoder(nn.Module):
    """speech_transformer's encoder, built from torch's own layers."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.stem = nn.Linear(80, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(width, 500)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.stem(frames)))


def _speech_transformer() -> Work:
    inputs = (torch.randn(4, 96, 80),)
    return Work(Encoder(), inputs, torch.randint(0, 500, (4, 96)), losses.classes)


class Waves(nn.Module):
    """demucs: strided convolutions with gated linear units, then transposed convolutions."""

    def __init__(self, channels: int = 24) -> None:
        super().__init__()
        sizes = [2, channels, 2 * channels, 4 * channels]
        pairs = list(itertools.pairwise(sizes))
        self.encoder = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 8, 4), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1))
            for a, b in pairs
        )
        self.decoder = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(b, 2 * b, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(b, a, 8, 4)
            )
            for a, b in reversed(pairs)
        )

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        saved = []
        for layer in self.encoder:
            samples = layer(samples)
            saved.append(samples)
        for layer in self.decoder:
            samples = layer(samples + saved.pop())
        return samples


def _demucs() -> Work:
    length = 4 * (4 * (4 * 200 + 4) + 4) + 4  # A length that the convolutions divide evenly.
    samples = torch.randn(4, 2, length)
    return Work(Waves(), (samples,), torch.randn(4, 2, length), losses.squares)


def _soft_actor_critic() -> Work:
    """The critic: a multilayer perceptron."""
    module = nn.Sequential(
        nn.Linear(32, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
    )
    return Work(module, (torch.randn(512, 32),), torch.randn(512, 1), losses.squares)


MODELS = (
    Model("torch", "dcgan", _dcgan),
    Model("torch", "dlrm", _dlrm),
    Model("torch", "pytorch_unet", _unet),
    Model("torch", "tts_angular", _tts_angular),
    Model("torch", "speech_transformer", _speech_transformer),
    Model("torch", "demucs", _demucs),
    Model("torch", "soft_actor_critic", _soft_actor_critic),
)
