# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of graphs, computed without lowering.

Two graphs with the same nodes and constants have the same fingerprint in all processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule

from torch_google.tpu import lowerings


def fingerprint(graph: GraphModule, *others: Any) -> str:
    """Return a fingerprint of a graph, its subgraphs, its constants, and the reprs of `others`."""
    digest = hashlib.sha256()
    for name, module in graph.named_modules():
        if isinstance(module, GraphModule):
            digest.update(f"{name}\n{module.graph.python_code('self').src}\n".encode())
    for name, tensor in _constants(graph):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}\n".encode())
        digest.update(_bytes(tensor))
    for other in others:
        digest.update(f"{other!r}\n".encode())
    return digest.hexdigest()


def is_ours(graph: GraphModule) -> bool:
    """Return whether all of a graph's lowerings come from torch or this package.

    If so, the versions of the two determine the lowerings.
    """
    return all(
        lowerings.is_pinned(node.target)
        for module in graph.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload)
    )


def _constants(graph: GraphModule) -> Iterable[tuple[str, torch.Tensor]]:
    for prefix, module in graph.named_modules():
        for name, value in sorted(vars(module).items()):
            if isinstance(value, torch.Tensor):
                yield f"{prefix}.{name}", value
        for name, value in (
            *module.named_parameters(prefix, recurse=False),
            *module.named_buffers(prefix, recurse=False),
        ):
            yield name, value


def _bytes(tensor: torch.Tensor) -> bytes:
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""
