# SPDX-License-Identifier: Apache-2.0
"""Finds storages through the Python objects that own them, such as parameters and gradients."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch

# The tensor types that have a storage. Others, such as fake tensors and DTensors, have none of
# their own.
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def storages() -> Iterator[tuple[int, int, int]]:
    """Yield (device, address, bytes) once for each storage that a Python object refers to."""
    seen = set()
    for each in gc.get_objects():
        if type(each) in _PLAIN:
            tensors: list[Any] = [each, each.grad if each.is_leaf else None]
            for tensor in tensors:
                address = _address(tensor)
                if address is not None and address not in seen:
                    seen.add(address)
                    yield tensor.device.index, address, tensor.untyped_storage().nbytes()


def owners() -> dict[int, str]:
    """Map the storage addresses of parameters, buffers, gradients and optimizer states to names.

    Two such names are `Net.layer.weight` and `gradient of Net.layer.weight`.
    """
    objects = gc.get_objects()
    modules = [each for each in objects if issubclass(type(each), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    names: dict[int, str] = {}
    parameters: dict[int, str] = {}
    for root in modules:
        if id(root) in children:
            continue
        for kind, named in (("", root.named_parameters()), ("buffer ", root.named_buffers())):
            for name, tensor in named:
                name = f"{kind}{type(root).__name__}.{name}"
                parameters[id(tensor)] = name
                _add(names, tensor, name)
                _add(names, tensor.grad if tensor.is_leaf else None, f"gradient of {name}")
    for each in objects:
        if issubclass(type(each), torch.optim.Optimizer):
            for parameter, state in each.state.items():
                of = parameters.get(id(parameter), "a parameter")
                for name, value in state.items():
                    _add(names, value, f"{type(each).__name__} {name} of {of}")
    return names


def _add(names: dict[int, str], tensor: Any, name: str) -> None:
    address = _address(tensor)
    if address is not None:
        names.setdefault(address, name)


def _address(tensor: Any) -> int | None:
    """Return the address of a tensor's storage on the device, or None if it has no such storage."""
    if type(tensor) not in _PLAIN or tensor.device.type != "tpu":
        return None
    if tensor.layout != torch.strided:
        return None
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # a functional tensor, while a graph is traced
        return None
