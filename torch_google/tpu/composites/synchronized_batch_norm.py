# SPDX-License-Identifier: Apache-2.0
"""The operators of torch.nn.SyncBatchNorm, which normalizes over the batches of all ranks.

torch implements these operators only for its built-in accelerators, such as CUDA. As on those
accelerators, statistics and sums are float32 if the input has half precision.
torch.nn.SyncBatchNorm runs collectives between the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

_Tensor: TypeAlias = torch.Tensor
_MaybeTensor: TypeAlias = torch.Tensor | None


def _stats(input: _Tensor, eps: float) -> tuple[_Tensor, _Tensor]:  # noqa: A002 - the schema's name
    var, mean = torch.var_mean(_wide(input), _axes(input), correction=0)
    return mean, torch.rsqrt(var + eps)


def _gather_stats_with_counts(
    input: _Tensor,  # noqa: A002 - the schema's name
    mean: _Tensor,
    invstd: _Tensor,
    running_mean: _MaybeTensor,
    running_var: _MaybeTensor,
    momentum: float,
    eps: float,
    counts: _Tensor,
) -> tuple[_Tensor, _Tensor]:
    """Return the mean and the inverse standard deviation over all ranks.

    Also update the running statistics. `mean` and `invstd` have a row for each rank, and `counts`
    has the number of elements on each rank.
    """
    share = (counts / counts.sum()).unsqueeze(1).to(mean.dtype)
    total = (mean * share).sum(0)
    var = ((invstd.pow(-2) - eps + (mean - total).square()) * share).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(total, alpha=momentum)
    if running_var is not None:
        count = counts.sum().to(var.dtype)
        running_var.mul_(1 - momentum).add_(var * (count / (count - 1)), alpha=momentum)
    return total, torch.rsqrt(var + eps)


def _gather_stats(
    input: _Tensor,  # noqa: A002 - the schema's name
    mean: _Tensor,
    invstd: _Tensor,
    running_mean: _MaybeTensor,
    running_var: _MaybeTensor,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[_Tensor, _Tensor]:
    counts = torch.full_like(mean[:, 0], count)
    return _gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def _elemt(
    input: _Tensor,  # noqa: A002 - the schema's name
    weight: _MaybeTensor,
    bias: _MaybeTensor,
    mean: _Tensor,
    invstd: _Tensor,
    eps: float,
) -> _Tensor:
    factor = invstd if weight is None else invstd * weight
    result = (_wide(input) - _column(mean, input)) * _column(factor, input)
    if bias is not None:
        result = result + _column(bias, input)
    return result.to(input.dtype)


def _backward_reduce(
    grad_out: _Tensor,
    input: _Tensor,  # noqa: A002 - the schema's name
    mean: _Tensor,
    invstd: _Tensor,
    weight: _MaybeTensor,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[_MaybeTensor, ...]:
    """Return the sums that the ranks exchange in the backward pass, and the parameters' gradients.

    The results are the sum of the gradient, the sum of the gradient times the centered input, the
    gradient of the weight and the gradient of the bias.
    """
    grad, axes = _wide(grad_out), _axes(input)
    total = grad.sum(axes)
    slope = (grad * (_wide(input) - _column(mean, input))).sum(axes)
    dtype = total.dtype if weight is None else weight.dtype
    return (
        total if input_g else None,
        slope if input_g else None,
        (slope * invstd).to(dtype) if weight_g else None,
        total.to(dtype) if bias_g else None,
    )


def _backward_elemt(
    grad_out: _Tensor,
    input: _Tensor,  # noqa: A002 - the schema's name
    mean: _Tensor,
    invstd: _Tensor,
    weight: _MaybeTensor,
    sum_dy: _Tensor,
    sum_dy_xmu: _Tensor,
    count: _Tensor,
) -> _Tensor:
    elements = count.sum().to(mean.dtype)
    factor = invstd if weight is None else invstd * weight
    slope = sum_dy_xmu / elements * invstd.square()
    centered = _wide(input) - _column(mean, input)
    grad = _wide(grad_out) - _column(sum_dy / elements, input) - centered * _column(slope, input)
    return (grad * _column(factor, input)).to(input.dtype)


def _wide(x: _Tensor) -> _Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _axes(x: _Tensor) -> list[int]:
    """Return all axes except the channel axis."""
    return [0, *range(2, x.dim())]


def _column(channels: _Tensor, like: _Tensor) -> _Tensor:
    return channels.view(-1, *[1] * (like.dim() - 2))


KERNELS: dict[str, Callable[..., Any]] = {
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats_with_counts": _gather_stats_with_counts,
    "batch_norm_gather_stats": _gather_stats,
    "batch_norm_elemt": _elemt,
    "batch_norm_backward_reduce": _backward_reduce,
    "batch_norm_backward_elemt": _backward_elemt,
}
