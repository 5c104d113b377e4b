# SPDX-License-Identifier: Apache-2.0
"""Operators whose result's shape depends on values: run on the arrays as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import torch

from torch_google.tpu import _C
from torch_google.tpu.program import Number, Program
from torch_google.tpu.runtime import arrays, metrics
from torch_google.tpu.runtime.strides import read
from torch_google.tpu.runtime.transfer import from_array

if TYPE_CHECKING:
    from torch_google.tpu.runtime.miss import Call


def run(program: Program, call: Call) -> list[Any]:
    """Return the operator's results, one for each that its schema has."""
    metrics.host_shapes()
    given = [
        read(_C.value(call.tensors[at]), call.views[at])
        if kind == "tensor"
        else _number(call.numbers[at])
        for kind, at in call.sources()
    ]
    device = given[0].devices() if given else set()
    made = program(given, None)
    results = [_tensor(array, device) for array in made]
    if not call.pure.written:
        returns = call.op._schema.returns
        return [results] if len(returns) == 1 and "List" in str(returns[0].type) else results
    outs = []
    for at, result in zip(call.written(), results, strict=True):
        target = call.tensors[at]
        if target.shape != result.shape:
            target.resize_(result.shape)
        outs.append(target.copy_(result))
    return outs


def _number(number: Number | torch.Tensor) -> Any:
    return number.value if isinstance(number, Number) else arrays.from_host(number, 0)


def _tensor(array: Any, devices: set[jax.Device]) -> torch.Tensor:
    from torch_google.tpu import dtypes

    placed = jax.device_put(array, next(iter(devices)))
    return from_array(placed, dtypes.to_torch(placed.dtype))
