# SPDX-License-Identifier: Apache-2.0
"""Implements torch.nn.parallel's copies between devices: scatter, gather and broadcast.

torch looks for these functions in torch._C, which defines them only in builds for other
accelerators, and only for tensors on those accelerators. No function here initializes the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._utils import _get_available_device_type

from torch_google.tpu.runtime.accelerator import stream_context


def install() -> None:
    """Install the functions in torch._C.

    If torch._C already defines a function, its replacement handles only calls with tpu tensors and,
    if tpu is the available accelerator, calls with host tensors. The original handles all others.
    """
    for replacement in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        original = getattr(torch._C, replacement.__name__, None)
        setattr(
            torch._C,
            replacement.__name__,
            _either(replacement, original) if original else replacement,
        )


def _either(replacement: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        device_types = set(_device_types(args))
        # For a module without buffers, torch passes an empty list, which has no device type. That
        # list is handled like host tensors.
        is_ours = "tpu" in device_types or (
            device_types <= {"cpu"} and _get_available_device_type() == "tpu"
        )
        return (replacement if is_ours else original)(*args)

    return call


def _device_types(args: Sequence[Any]) -> Iterator[str]:
    """Yield the device type of each tensor and stream, including those in sequences."""
    for arg in args:
        if isinstance(arg, (torch.Tensor, torch.Stream)):
            yield arg.device.type
        elif isinstance(arg, (list, tuple)):
            yield from _device_types(arg)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """Return a copy of the tensor for each device, and the tensor itself for its own device."""
    return [tensor.to(_device(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    for index, target in enumerate(out):
        _check_target(target, tensor.shape, index)
    return [target.copy_(tensor, non_blocking=True) for target in out]


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """Return the tensors themselves for the first device, and detached copies for all others."""
    if any(tensor.get_device() != devices[0] for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    with torch.no_grad():
        copies = [
            [tensor.to(_device(index), non_blocking=True, copy=True) for tensor in tensors]
            for index in devices[1:]
        ]
    return [list(tensors), *copies]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[torch.Stream | None] | None,
) -> list[torch.Tensor]:
    """Return a chunk of the tensor for each device, or fewer if the dimension is too short."""
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    else:
        chunks = tensor.split_with_sizes(list(chunk_sizes), dim)
    copies = []
    for chunk, index, stream in zip(chunks, devices, _of_each(streams, devices), strict=False):
        with stream_context(stream):
            copies.append(chunk.to(_device(index), non_blocking=True))
    return copies


def _scatter_out(
    tensor: torch.Tensor,
    out: Sequence[torch.Tensor],
    dim: int,
    streams: Sequence[torch.Stream | None] | None,
) -> list[torch.Tensor]:
    chunks = tensor.split_with_sizes([target.size(dim) for target in out], dim)
    for index, (chunk, target) in enumerate(zip(chunks, out, strict=True)):
        _check_target(target, chunk.shape, index)
    for chunk, target, stream in zip(chunks, out, _of_each(streams, out), strict=False):
        with stream_context(stream):
            target.copy_(chunk, non_blocking=True)
    return list(out)


def _gather(
    tensors: Sequence[torch.Tensor], dim: int, destination_index: int | None
) -> torch.Tensor:
    """Concatenate tensors on a device. None means the current device, and -1 means the host."""
    if destination_index is None:
        device = torch.device("tpu", torch.tpu.current_device())
    elif destination_index == -1:
        device = torch.device("cpu")
    else:
        device = _device(destination_index)
    # These copies must block, because the host may read the result immediately.
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    gathered = torch.cat([tensor.to(out.device) for tensor in tensors], dim)
    if out.shape != gathered.shape:
        raise RuntimeError(
            f"Expected out tensor to have shape {list(gathered.shape)}, but got {list(out.shape)}"
        )
    return out.copy_(gathered)


def _device(index: int) -> torch.device:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return torch.device("tpu", index)


def _of_each(
    streams: Sequence[torch.Stream | None] | None, chunks: Sequence[Any]
) -> Sequence[torch.Stream | None]:
    return [None] * len(chunks) if streams is None else streams


def _check_target(target: torch.Tensor, shape: Sequence[int], index: int) -> None:
    if target.device.type != "tpu":
        raise RuntimeError(
            f"Expected all output tensors to be tpu tensors, but output tensor at index {index} has "
            f"device '{target.device}'"
        )
    if target.shape != shape:
        raise RuntimeError(
            f"Expected the output tensor at index {index} to have shape {list(shape)}, but it has "
            f"{list(target.shape)}"
        )
