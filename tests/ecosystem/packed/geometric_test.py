# SPDX-License-Identifier: Apache-2.0
"""A packed program trains torch-geometric networks; tpu's losses equal the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool


class _Network(torch.nn.Module):
    def __init__(self, layer: Callable[..., torch.nn.Module]) -> None:
        super().__init__()
        self.first, self.second = layer(5, 16), layer(16, 3)

    def forward(self, data: Any) -> torch.Tensor:
        hidden = self.first(data.x, data.edge_index).relu()
        return global_mean_pool(self.second(hidden, data.edge_index), data.batch)


def _graphs() -> Iterator[Data]:
    """Yield graphs of different sizes, each with a label."""
    generator = torch.Generator().manual_seed(0)
    for label, nodes in enumerate((4, 7, 5, 6, 9, 8)):
        edges = torch.randint(nodes, (2, 3 * nodes), generator=generator)
        values = torch.randn(nodes, 5, generator=generator) + label % 3
        yield Data(x=values, edge_index=edges, y=torch.tensor([label % 3]))


def _losses(layer: Callable[..., torch.nn.Module], device: str) -> list[float]:
    torch.manual_seed(1)
    network = _Network(layer).to(device)
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    losses = []
    for _ in range(6):
        for batch in DataLoader(list(_graphs()), batch_size=3):
            batch = batch.to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(batch), batch.y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("layer", [GCNConv, GATConv, SAGEConv])
def test_losses_equal_the_cpus(layer: Callable[..., torch.nn.Module]) -> None:
    expected, got = _losses(layer, "cpu"), _losses(layer, "tpu")
    assert got == pytest.approx(expected, rel=1e-4)
    assert sum(got[-2:]) < sum(got[:2])
