# SPDX-License-Identifier: Apache-2.0
"""Graph networks from torch-geometric, with the settings of TorchBench's basic_gnn models."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.models.model import Model, Work
from benchmarks.models.zoo import losses

_NODES, _EDGES, _FEATURES, _LAYERS = 5000, 50_000, 64, 3


def _work(name: str) -> Work:
    from torch_geometric.nn import models

    module = getattr(models, name)(_FEATURES, _FEATURES, _LAYERS, _FEATURES)
    inputs = (torch.randn(_NODES, _FEATURES), torch.randint(0, _NODES, (2, _EDGES)))
    return Work(module, inputs, torch.randint(0, _FEATURES, (_NODES,)), losses.classes)


MODELS = tuple(
    Model("torch_geometric", name.lower(), partial(_work, name))
    for name in ("GCN", "GIN", "GraphSAGE", "EdgeCNN")
)
