# SPDX-License-Identifier: Apache-2.0
"""Sends the device's tensors through torch.multiprocessing: queues, pipes and data loaders.

Processes do not share device memory. The sender copies a tensor to shared host memory, and the
receiver copies it to the device with the same index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from multiprocessing import reduction
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor


def install(receive: Callable[..., Any]) -> None:
    """Register a reducer for the device's tensors. All other tensors still use torch's reducer.

    The receiving process imports the module-level function `receive` and calls it with the
    arguments of `rebuild`.
    """
    for kind in (torch.Tensor, torch.nn.Parameter):
        reduction.register(kind, partial(_reduce, receive))


def _reduce(
    receive: Callable[..., Any], tensor: torch.Tensor
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # torch's reducer raises an error for a tensor that requires gradients but is not a leaf.
    refused = tensor.requires_grad and not tensor.is_leaf
    if tensor.device.type != "tpu" or refused or tensor.layout != torch.strided:
        plain: tuple[Callable[..., Any], tuple[Any, ...]] = reduce_tensor(tensor)
        return plain
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    values = tensor.detach().cpu()
    return receive, (values, tensor.device.index, tensor.requires_grad, is_parameter)


def rebuild(values: torch.Tensor, index: int, requires_grad: bool, is_parameter: bool) -> Any:
    """Rebuild a tensor that another process sent. The device must already be registered."""
    tensor = values.to(f"tpu:{index}")
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
