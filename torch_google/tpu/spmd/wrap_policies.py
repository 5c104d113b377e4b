# SPDX-License-Identifier: Apache-2.0
"""torch's policies for `auto_wrap_policy`, and a wrapper for activation checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed.fsdp.wrap import (
    always_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
)
from torch.utils.checkpoint import checkpoint

__all__ = [
    "always_wrap_policy",
    "checkpoint_module",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]

_M = TypeVar("_M", bound=nn.Module)


def checkpoint_module(module: _M) -> _M:
    """Make a module recompute its activations in the backward pass, and return it.

    To checkpoint every wrapped module, use this in `auto_wrapper_callable`: `lambda m, **options:
    FullyShardedDataParallel(checkpoint_module(m), **options)`.
    """
    forward = module.forward

    def recomputed(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            return checkpoint(forward, *args, use_reentrant=False, **kwargs)
        return forward(*args, **kwargs)

    module.forward = recomputed
    return module


def wrap_children(
    module: nn.Module, policy: Callable[..., bool], wrapper: Callable[[nn.Module], nn.Module]
) -> int:
    """Wrap the submodules that a policy chooses, innermost first.

    Return the number of parameter elements in wrapped submodules.
    """
    wrapped = 0
    for name, child in list(module.named_children()):
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            # A container has no forward(), so wrap only its children.
            wrapped += wrap_children(child, policy, wrapper)
            continue
        total = _count(child)
        inner = 0
        if policy(module=child, recurse=True, nonwrapped_numel=total):
            inner = wrap_children(child, policy, wrapper)
        if policy(module=child, recurse=False, nonwrapped_numel=total - inner):
            setattr(module, name, wrapper(child))
            inner = total
        wrapped += inner
    return wrapped


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
