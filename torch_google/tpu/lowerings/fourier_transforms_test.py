# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.fourier_transforms  # noqa: F401 (registers)
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
