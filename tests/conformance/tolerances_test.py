# SPDX-License-Identifier: Apache-2.0
"""Test that tolerances for float32 matmuls depend on the platform and its precision."""

from __future__ import annotations

import fnmatch

import pytest
import torch

from tests.conformance import samples
from tests.conformance.tolerances import PRODUCTS, Tolerance, tolerance

_DEFAULT = 1.3e-6  # torch.testing's relative tolerance for float32


def _relative(allowed: Tolerance) -> float:
    return allowed.of(torch.float32)[0]


def test_every_pattern_of_products_has_an_operator() -> None:
    for pattern in PRODUCTS:
        assert fnmatch.filter(samples.operators(), pattern), pattern


def test_products_have_the_rounding_of_the_platform() -> None:
    op = samples.operators()["addbmm"]
    on = {
        (platform, level): tolerance(
            op, torch.float32, "forward", platform=platform, precision=level
        )
        for platform in ("cpu", "cuda", "tpu")
        for level in ("default", "high", "highest")
    }
    plain = tolerance(op, torch.float32, "forward")
    assert all(on["cpu", level] == plain for level in ("default", "high", "highest"))
    assert on["tpu", "highest"] == on["cuda", "highest"] == plain
    assert on["tpu", "default"].least[0] == 8 * 2.0**-8
    assert on["tpu", "high"].least[0] == 8 * 2.0**-16
    assert on["cuda", "high"].least[0] == 8 * 2.0**-11
    assert on["tpu", "default"].normwise
    assert not plain.normwise


def test_a_product_of_bfloat16_factors_is_within_the_tolerance_of_a_tpu() -> None:
    # Emulate a matmul on a TPU: round the float32 operands to bfloat16, and add in float32.
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(64, 64, generator=generator) for _ in range(2))
    exact, rounded = a.double() @ b.double(), a.bfloat16().float() @ b.bfloat16().float()
    error = float((rounded - exact).abs().max() / exact.abs().max())
    allowed = tolerance(samples.operators()["mm"], torch.float32, "forward", platform="tpu")
    assert 4 * _DEFAULT < error < _relative(allowed)


@pytest.mark.parametrize(
    ("operator", "dtype"), [("mm", torch.float64), ("mm", torch.bfloat16), ("add", torch.float32)]
)
def test_other_operators_and_dtypes_are_the_same_everywhere(
    operator: str, dtype: torch.dtype
) -> None:
    op = samples.operators()[operator]
    assert tolerance(op, dtype, "forward", platform="tpu") == tolerance(op, dtype, "forward")
