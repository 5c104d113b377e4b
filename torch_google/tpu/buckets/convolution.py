# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling. Padding is set to zero, like zero padding around an image."""

from __future__ import annotations

from typing import Any

from torch_google.tpu.buckets.padded_array import PaddedArray, cleared, filled, redim
from torch_google.tpu.buckets.rules import RuleCall, like, require, rule
from torch_google.tpu.buckets.views import leading


@rule("aten::convolution")
def convolution(call: RuleCall) -> Any:
    x, weight = call.args[:2]
    require(call.op.name(), (*weight.dims, *x.dims[1:2]))
    if call.argument("transposed"):
        require(call.op.name(), x.dims[2:])
    x = _in_front(call, x)
    array = call.lower(filled(call.scope, x, range(2, len(x.dims)), 0), *call.args[1:])[0]
    return [PaddedArray(array, (x.dims[0], *call.own()[1:]))]


@rule("aten::convolution_backward")
def convolution_backward(call: RuleCall) -> Any:
    grad, x, weight = call.args[:3]
    require(call.op.name(), (*weight.dims, *x.dims[1:2]))
    if call.argument("transposed"):
        require(call.op.name(), x.dims[2:])
    x = _in_front(call, x)
    grad = _in_front(call, redim(call.scope, grad, (x.dims[0], *grad.dims[1:])))
    inputs = [cleared(call.scope, grad), cleared(call.scope, x)]
    to_x, *rest = call.lower(*inputs, *call.args[2:])
    return [
        None if to_x is None else PaddedArray(to_x, x.dims),
        *(None if array is None else like((), array) for array in rest),
    ]


@rule(
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
    "aten::adaptive_max_pool2d",
    "aten::upsample_nearest2d",
    "aten::upsample_bilinear2d",
)
def windows(call: RuleCall) -> Any:
    x = call.args[0]
    batch = _images(call, x)
    results = call.lower(*call.args, **call.kwargs)
    return [None if a is None else like(x.dims[:batch], a) for a in results]


@rule(
    "aten::max_pool2d_with_indices_backward",
    "aten::max_pool3d_with_indices_backward",
    "aten::avg_pool2d_backward",
    "aten::avg_pool3d_backward",
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward",
    "aten::adaptive_max_pool2d_backward",
)
def windows_backward(call: RuleCall) -> Any:
    grad, x, *others = call.args
    batch = _images(call, x)
    inputs = [
        redim(call.scope, value, (*x.dims[:batch], *value.dims[batch:]))
        if isinstance(value, PaddedArray)
        else value
        for value in (grad, x, *others)
    ]
    return [PaddedArray(call.lower(*inputs, **call.kwargs)[0], x.dims)]


def _in_front(call: RuleCall, x: PaddedArray) -> PaddedArray:
    """Move the padding of each spatial dimension to its end, so that real elements are adjacent."""
    for axis in range(2, len(x.dims)):
        x = leading(call.scope, x, axis)
    return x


def _images(call: RuleCall, x: PaddedArray) -> int:
    """Return the number of non-spatial dimensions. The spatial ones must not be padded."""
    spatial = 3 if "3d" in call.op.name() else 2
    require(call.op.name(), x.dims[len(x.dims) - spatial :])
    return len(x.dims) - spatial
