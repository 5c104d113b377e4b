# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings import fourier_transforms
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [[2], [0, 3], [3, 1, 0, 2]])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_every_transform(dtype: torch.dtype, dim: Any, normalization: Any) -> None:
    x = torch.randn(3, 4, 5, 6).to(dtype)
    z = torch.complex(x, torch.randn(3, 4, 5, 6).to(dtype))
    for forward in (True, False):
        check(aten._fft_c2c.default, z, dim, normalization, forward, **CLOSE)
    for onesided in (True, False):
        check(aten._fft_r2c.default, x, dim, normalization, onesided, **CLOSE)
    # Together, the forward and backward transforms divide by the element count, so the result has
    # the magnitude of x.
    half = aten._fft_r2c.default(x, dim, 2 - normalization, True)
    size = x.shape[dim[-1]]
    check(aten._fft_c2r.default, half, dim, normalization, size, **CLOSE)


def test_a_tpu_rejects_transforms_of_64_bits() -> None:
    def lower(name: str, dtype: Any) -> None:
        function: Callable[..., Any] = {
            "_fft_c2c": lambda x: fourier_transforms.complex_to_complex(x, [0, 1], 0, True),
            "_fft_r2c": lambda x: fourier_transforms.real_to_complex(x, [0, 1], 0, True),
            "_fft_c2r": lambda x: fourier_transforms.complex_to_real(x, [0, 1], 0, 4),
        }[name]
        jax.jit(function).trace(jnp.ones((3, 3), dtype)).lower(lowering_platforms=("tpu",))

    wide_dtypes = {"_fft_c2c": "complex128", "_fft_r2c": "float64", "_fft_c2r": "complex128"}
    for name, wide in wide_dtypes.items():
        lower(name, {"complex128": jnp.complex64, "float64": jnp.float32}[wide])
        message = f"a TPU has no aten::{name} of {wide}: .* Use float32. .*cpu_fallback"
        with pytest.raises(NotImplementedError, match=message):
            lower(name, wide)
