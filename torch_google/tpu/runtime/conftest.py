# SPDX-License-Identifier: Apache-2.0
"""The device for tests, with a few operators of its own where the table has none yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torch_google.tpu import autoload

autoload()


@pytest.fixture(scope="session", autouse=True)
def _device() -> None:
    torch.tpu.init()
    import jax
    import jax.numpy as jnp

    def scaled(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a, b, alpha=1: function(a, b * alpha)

    operators: dict[str, Callable[..., Any]] = {
        "add.Tensor": scaled(jnp.add),
        "sub.Tensor": scaled(jnp.subtract),
        "mul.Tensor": jnp.multiply,
        "div.Tensor": jnp.true_divide,
        "mm": jnp.matmul,
        "addmm": lambda b, x, w, beta=1, alpha=1: beta * b + alpha * (x @ w),
        "relu": lambda a: jnp.maximum(a, 0),
        "sqrt": jnp.sqrt,
        "exp": jnp.exp,
        "neg": jnp.negative,
        "eq.Tensor": jnp.equal,
        "all": jnp.all,
        "zero": jnp.zeros_like,
        "threshold_backward": lambda g, x, t: jnp.where(x <= t, 0, g),
        "sum.dim_IntList": lambda a, dim=None, keepdim=False, dtype=None: a.sum(
            tuple(dim) if dim else None, keepdims=keepdim
        ),
        "sum": lambda a, dtype=None: a.sum(),
        "mean": lambda a, dtype=None: a.mean(),
        "fill.Scalar": jnp.full_like,
        "copy": lambda a, b, non_blocking=False: jnp.broadcast_to(b, a.shape).astype(a.dtype),
        "addcmul": lambda s, a, b, value=1: s + value * a * b,
        "addcdiv": lambda s, a, b, value=1: s + value * (a / b),
        "lerp.Scalar": lambda s, e, w: s + w * (e - s),
        "mse_loss": lambda a, b, reduction=1: ((a - b) ** 2).mean(),
        "mse_loss_backward": lambda g, a, b, reduction: g * 2 * (a - b) / a.size,
        "index.Tensor": lambda a, indices: a[
            tuple(slice(None) if i is None else i for i in indices)
        ],
        "max.dim": lambda a, dim, keepdim=False: (
            a.max(dim, keepdims=keepdim),
            a.argmax(dim, keepdims=keepdim),
        ),
    }
    random: dict[str, Callable[..., Any]] = {
        "uniform": lambda a, low=0.0, high=1.0, *, key: jax.random.uniform(
            key, a.shape, minval=low, maxval=high
        ),
        "normal_functional": lambda a, mean=0.0, std=1.0, *, key: (
            mean + std * jax.random.normal(key, a.shape)
        ),
    }
    from torch_google.tpu.lowerings import lowering, names

    known = names()
    for name, function in operators.items():
        if f"aten::{name}" not in known:
            lowering(f"aten::{name}")(function)
    for name, function in random.items():
        if f"aten::{name}" not in known:
            lowering(f"aten::{name}", random=True)(function)
    if "aten::nonzero" not in known:
        lowering("aten::nonzero", host_shape=True)(lambda a: jnp.stack(jnp.nonzero(a), -1))


@pytest.fixture(autouse=True)
def _counted() -> None:
    torch.tpu.reset_metrics()
