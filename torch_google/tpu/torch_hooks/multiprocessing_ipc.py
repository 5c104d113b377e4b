# SPDX-License-Identifier: Apache-2.0
"""Tensors of the device for other processes: by torch.multiprocessing's queues, pipes and loaders.

No process sees another's device memory. What is sent is a copy: through shared memory of the host, onto
the device of the same index there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from multiprocessing import reduction
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor


def install(receive: Callable[..., Any]) -> None:
    """Let multiprocessing pickle tensors of the device. Others go the way that torch has for them.

    The receiving process imports `receive`, a function of a module, and calls it with the arguments
    of `rebuild`.
    """
    for kind in (torch.Tensor, torch.nn.Parameter):
        reduction.register(kind, partial(_reduce, receive))


def _reduce(
    receive: Callable[..., Any], tensor: torch.Tensor
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    refused = tensor.requires_grad and not tensor.is_leaf  # in torch's words
    if tensor.device.type != "tpu" or refused or tensor.layout != torch.strided:
        plain: tuple[Callable[..., Any], tuple[Any, ...]] = reduce_tensor(tensor)
        return plain
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    values = tensor.detach().cpu()
    return receive, (values, tensor.device.index, tensor.requires_grad, is_parameter)


def rebuild(values: torch.Tensor, index: int, requires_grad: bool, is_parameter: bool) -> Any:
    """Return the tensor that another process sent. The device must be registered."""
    made = values.to(f"tpu:{index}")
    if is_parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)
