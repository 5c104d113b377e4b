# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings import upsampling
from torch_google.tpu.lowerings.against_cpu import check
from torch_google.tpu.lowerings.table import find

aten = torch.ops.aten
SIZES = {1: (7,), 2: (7, 5), 3: (4, 5, 3)}


def options(has_corners: Any) -> Any:
    return [(True,), (False,)] if has_corners else [()]


@pytest.mark.parametrize("name", upsampling._RULES)
def test_up_down_and_gradients(name: str) -> None:
    _, rank, has_corners = upsampling._RULES[name]
    forward = getattr(aten, name).default
    backward = getattr(aten, f"{name}_backward").default
    x = torch.randn(2, 3, *SIZES[rank]).double()
    for corners in options(has_corners):
        for size in ([11, 4, 6][:rank], [1, 1, 2][:rank]):
            check(forward, x, size, *corners, rtol=1e-5, atol=1e-5)
            grad = torch.randn(2, 3, *size).double()
            args = (grad, size, list(x.shape), *corners)
            check(backward, *args, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", upsampling._RULES)
def test_scales_as_given_and_half(name: str) -> None:
    _, rank, has_corners = upsampling._RULES[name]
    forward = getattr(aten, name).default
    x = torch.randn(1, 2, *SIZES[rank])
    size = [int(n * 1.7) for n in SIZES[rank]]
    corners = (False,) if has_corners else ()
    check(forward, x, size, *corners, *[1.7] * rank, rtol=1e-5, atol=1e-5)
    if not name.endswith("_aa"):  # torch's CPU kernels support only float32 and float64
        check(forward, x.bfloat16(), size, *corners)


def test_nearest_keeps_bytes() -> None:
    x = torch.randint(0, 256, (1, 2, 5, 6), dtype=torch.uint8)
    check(aten.upsample_nearest2d.default, x, [8, 3])


def test_bilinear_bytes_are_rounded() -> None:
    x = torch.randint(0, 256, (1, 2, 5, 6), dtype=torch.uint8)
    check(aten.upsample_bilinear2d.default, x, [8, 9], False, rtol=0, atol=1)


@pytest.mark.parametrize("name", ["upsample_nearest1d", "upsample_linear1d"])
def test_a_traced_scale(name: str) -> None:
    op = getattr(aten, name).default
    x = torch.randn(1, 2, 7)
    corners = (False,) if "linear" in name else ()
    entry = find(op)
    assert entry is not None
    call = jax.jit(lambda x, scale: entry.function(x, [10], *corners, scale))
    out = call(jnp.asarray(x.numpy()), 1.5)
    torch.testing.assert_close(torch.tensor(out.tolist()), op(x, [10], *corners, 1.5))
