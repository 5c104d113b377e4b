# SPDX-License-Identifier: Apache-2.0
"""Runs operators without a lowering on the CPU, if the user has enabled this fallback."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.lowerings.platform_choice import NotOnTpu
from torch_google.tpu.program import Number, apply
from torch_google.tpu.runtime import errors, metrics
from torch_google.tpu.runtime.transfer import host_view, storage_to_host


def refusal(op: OpOverload, args: list[Any], cause: NotImplementedError) -> NotImplementedError:
    """Return the error that an operator without a lowering raises when fallback is off."""
    leaves = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    dtype_names = (
        ", ".join(str(leaf.dtype).removeprefix("torch.") for leaf in leaves) or "no tensors"
    )
    text = f"tpu: {op.name()} ({dtype_names}) does not run on the device: {cause}"
    if isinstance(cause, NotOnTpu):
        return NotImplementedError(text)
    return NotImplementedError(f"{text}. To run it on the CPU: with torch.tpu.cpu_fallback()")


def run(op: OpOverload, args: list[Any]) -> list[Any]:
    """Run an operator on the CPU, and copy the modified tensors back to the device."""
    metrics.fallback(op.name())
    _warn_once(op)
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    tensors = _tensors(args)
    device = tensors[0].device if tensors else torch.device("tpu", torch.tpu.current_device())
    written = _tensors([args[index] for index in _written(op)])
    uses = Counter(_storage(tensor) for tensor in tensors)
    # If the operator writes to a storage, all arguments that alias it must share one CPU copy.
    shared = {
        storage: storage_to_host(tensor).clone()
        for tensor in written
        if uses[storage := _storage(tensor)] > 1
    }

    def to_cpu(leaf: Any) -> Any:
        if _is_ours(leaf):
            memory = shared.get(_storage(leaf))
            copies.append((leaf, leaf.cpu() if memory is None else host_view(memory, leaf)))
            return copies[-1][1]
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.Generator):
            raise NotImplementedError(
                f"tpu: {op.name()} cannot run on the CPU with a tpu generator. Pass no generator"
            )
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    results = apply(op, [pytree.tree_map(to_cpu, arg) for arg in args])
    targets = {id(tensor) for tensor in written}
    for tensor, copy in copies:
        if id(tensor) in targets:
            if tensor.shape != copy.shape:
                tensor.resize_(copy.shape)
            tensor.copy_(copy)
    originals = {id(copy): tensor for tensor, copy in copies}

    def to_tpu(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return originals[id(leaf)] if id(leaf) in originals else leaf.to(device)

    if len(op._schema.returns) == 1:
        return [pytree.tree_map(to_tpu, results)]
    return [pytree.tree_map(to_tpu, result) for result in results or ()]


def _warn_once(op: OpOverload) -> None:
    """Warn the first time an operator falls back to the CPU. `metrics()` counts all fallbacks."""
    with _lock:
        if op.name() in _warned:
            return
        _warned.add(op.name())
    warnings.warn(
        f"tpu: {op.name()} has no lowering and runs on the CPU, as cpu_fallback() allows: each call "
        "copies its tensors there and back. torch.tpu.metrics().fallbacks counts the calls",
        UserWarning,
        stacklevel=errors.users_level(),
    )


_lock = threading.Lock()
_warned: set[str] = set()


def _written(op: OpOverload) -> list[int]:
    """Return the positions of the arguments that an operator writes to."""
    return [
        index
        for index, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _tensors(args: list[Any]) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(args) if _is_ours(leaf)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_ours(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "tpu"
