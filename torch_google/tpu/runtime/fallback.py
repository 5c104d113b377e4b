# SPDX-License-Identifier: Apache-2.0
"""Operators that run on the CPU for want of a lowering: only where a caller has allowed it."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.program import Number, taken
from torch_google.tpu.runtime import metrics


def refusal(op: OpOverload, args: list[Any], cause: NotImplementedError) -> NotImplementedError:
    """Return the error for an operator that has no lowering, here, where no fallback is allowed."""
    leaves = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    kinds = ", ".join(str(leaf.dtype).removeprefix("torch.") for leaf in leaves) or "no tensors"
    return NotImplementedError(
        f"tpu: {op.name()} ({kinds}) does not run on the device: {cause}. "
        "To run it on the CPU: with torch.tpu.cpu_fallback()"
    )


def run(op: OpOverload, args: list[Any]) -> list[Any]:
    """Return the results of an operator, computed on the CPU; what it writes is written back."""
    metrics.fallback(op.name())
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    devices = [leaf.device for leaf in pytree.tree_leaves(args) if _is_ours(leaf)]
    device = devices[0] if devices else torch.device("tpu", torch.tpu.current_device())

    def to_cpu(leaf: Any) -> Any:
        if _is_ours(leaf):
            copies.append((leaf, leaf.cpu()))
            return copies[-1][1]
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.Generator):
            raise NotImplementedError(
                f"tpu: {op.name()} cannot run on the CPU with a generator of tpu. Give none"
            )
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    schema = op._schema
    results = _call(op, [pytree.tree_map(to_cpu, arg) for arg in args])
    written = {id(copy): ours for ours, copy in copies}
    if schema.is_mutable:
        for ours, copy in copies:
            if ours.shape != copy.shape:
                ours.resize_(copy.shape)
            ours.copy_(copy)

    def to_tpu(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return written[id(leaf)] if id(leaf) in written else leaf.to(device)

    if len(schema.returns) == 1:
        return [pytree.tree_map(to_tpu, results)]
    return [pytree.tree_map(to_tpu, result) for result in results or ()]


def rehearse(op: OpOverload, args: list[Any]) -> None:
    """Run an operator on zeros on the CPU, for the error that it raises there, if it does.

    An operator that the CPU does not have raises nothing.
    """

    def stand_in(leaf: Any) -> Any:
        if _is_ours(leaf):
            return torch.empty_strided(
                leaf.shape, leaf.stride(), dtype=leaf.dtype, device="cpu"
            ).zero_()
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.Generator):
            return None
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    with contextlib.suppress(NotImplementedError):
        _call(op, taken(op, [pytree.tree_map(stand_in, arg) for arg in args], "cpu"))


def _call(op: OpOverload, values: list[Any]) -> Any:
    arguments = op._schema.arguments
    return op(
        *(v for a, v in zip(arguments, values, strict=True) if not a.kwarg_only),
        **{a.name: v for a, v in zip(arguments, values, strict=True) if a.kwarg_only},
    )


def _is_ours(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "tpu"
