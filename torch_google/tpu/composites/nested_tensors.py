# SPDX-License-Identifier: Apache-2.0
"""Strided nested tensors: torch's CPU kernels, applied to a buffer on the device.

Most of these kernels read only sizes, strides and offsets, which are CPU tensors for any device.
They pass views of the buffer to other operators, which run on the device. A few kernels read the
buffer itself. This module replaces some of those kernels and does not register the rest, so torch
reports the rest as unimplemented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

_ATEN = torch.ops.aten
# Kernels that access elements through a data pointer, which tensors on the device do not have.
_UNSAFE = frozenset(
    {
        "_native_multi_head_attention",
        "_nested_tensor_softmax_with_shape",
        "_pin_memory",
        "_transform_bias_rescale_qkv",
        "_transformer_encoder_layer_fwd",
        "is_pinned",
    }
)


def kernels() -> Mapping[str, Callable[..., Any]]:
    """Return kernels for the nested-tensor operators that torch implements on the CPU."""
    names = [name for name in _names("NestedTensorCPU") if name not in _UNSAFE]
    return {name: _kernel(name, DispatchKey.NestedTensorCPU) for name in names} | _REPLACED


def dense_kernels() -> Mapping[str, Callable[..., Any]]:
    """Return kernels for the operators that create nested tensors from dense ones."""
    names = [name for name in _names("CPU") if name.startswith("_nested_")]
    return {name: _kernel(name, DispatchKey.CPU) for name in names}


def _names(key: str) -> Iterator[str]:
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
            yield name.removeprefix("aten::")


def _kernel(name: str, key: DispatchKey) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    op: OpOverload = getattr(getattr(_ATEN, packet), overload or "default")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return op._op_dk(key, *args, **kwargs)

    return kernel


def _sum(
    x: torch.Tensor, dim: Sequence[int], keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    sizes = _ATEN.sum.dim_IntList(_zeros(x), dim, keepdim, dtype=dtype)._nested_tensor_size()
    parts = [part.sum(-1, dtype=dtype).reshape(-1) for part in x.unbind()]
    return _of_buffer(torch.cat(parts), sizes)


def _sum_backward(
    gradient: torch.Tensor, x: torch.Tensor, dim: Sequence[int] | None, keepdim: bool = False
) -> torch.Tensor:
    pairs = zip(gradient.unbind(), x.unbind(), strict=True)
    parts = [grad.expand_as(part).reshape(-1) for grad, part in pairs]
    return _of_buffer(torch.cat(parts), x._nested_tensor_size())


def _layer_norm(
    x: torch.Tensor,
    shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    # Run the CPU's kernel on zeros first, because it raises the errors for invalid calls.
    _ATEN.native_layer_norm(_zeros(x), shape, *map(_zeros, (weight, bias)), eps)
    out, mean, rstd = _ATEN.native_layer_norm(_rows(x, shape), shape, weight, bias, eps)
    return _of_buffer(out.reshape(-1), x._nested_tensor_size()), mean, rstd


def _layer_norm_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    dx, dweight, dbias = _ATEN.native_layer_norm_backward(
        _rows(gradient, shape), _rows(x, shape), shape, mean, rstd, *rest
    )
    if dx is not None:
        dx = _of_buffer(dx.reshape(-1), x._nested_tensor_size())
    return dx, dweight, dbias


def _rows(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    return torch.cat([part.reshape(-1, *shape) for part in x.unbind()])


def _of_buffer(buffer: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    layout = _ATEN._nested_compute_contiguous_strides_offsets(sizes)
    return _ATEN._nested_view_from_buffer(buffer, sizes, *layout)


def _zeros(x: torch.Tensor | None) -> torch.Tensor | None:
    """Return CPU zeros with a tensor's sizes and dtype, so that a CPU kernel can check a call."""
    if x is None or not x.is_nested:
        return None if x is None else torch.zeros(x.shape, dtype=x.dtype)
    parts = [torch.zeros(part.shape, dtype=x.dtype) for part in x.unbind()]
    return _ATEN._nested_tensor_from_tensor_list(parts)


_REPLACED: dict[str, Callable[..., Any]] = {
    "_nested_sum_backward": _sum_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "sum.dim_IntList": _sum,
}
