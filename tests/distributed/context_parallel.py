# SPDX-License-Identifier: Apache-2.0
"""Test cases for context parallelism: each rank processes a part of each sequence."""

from __future__ import annotations

import torch
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import (
    context_parallel_unshard,
    set_rotate_method,
)
from torch.distributed.tensor.experimental._context_parallel._load_balancer import (
    _create_default_load_balancer,
)
from torch.nn import functional

from tests.distributed.rank import Rank, same
from tests.distributed.registry import case

_TOLERANCE = 1e-5
# On any device, torch's memory-efficient attention pads its log-sum-exp values to a multiple of
# this number of positions. Context parallelism cannot handle padding, so use a multiple of it.
_MULTIPLE = 32


def _attends(rank: Rank, rotation: str) -> float:
    random = torch.Generator().manual_seed(0)
    # (batch, heads, positions, features)
    shape = (2, 2, 2 * rank.size * _MULTIPLE, 8)
    query, key, value = (torch.randn(shape, generator=random) for _ in range(3))
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    expected = functional.scaled_dot_product_attention(*leaves, is_causal=True)
    expected.square().sum().backward()
    mesh = rank.mesh()
    set_rotate_method(rotation)
    parts = [x.to(rank.device) for x in (query, key, value)]
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2, 2, 2]):
        for part in parts:
            part.requires_grad_()
        result = functional.scaled_dot_product_attention(*parts, is_causal=True)
        result.square().sum().backward()
        gradients = [part.grad for part in parts]
        for part in parts:
            part.requires_grad_(False)
        balancer = _create_default_load_balancer(shape[2], rank.size, torch.device(rank.device))
        whole = context_parallel_unshard(
            mesh, [result.detach(), *gradients], [2, 2, 2, 2], balancer
        )
    return max(
        same(actual, reference, tolerance=_TOLERANCE)
        for actual, reference in zip(
            whole, [expected.detach(), *(leaf.grad for leaf in leaves)], strict=True
        )
    )


@case()
def context_parallel_all_gather(rank: Rank) -> float:
    return _attends(rank, "allgather")


@case()
def context_parallel_all_to_all(rank: Rank) -> float:
    return _attends(rank, "alltoall")
