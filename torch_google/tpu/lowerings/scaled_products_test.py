# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
import torch
from torch.testing import make_tensor

from torch_google.tpu.lowerings.against_cpu import check
from torch_google.tpu.release import has_operator

aten = torch.ops.aten

_FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    # A result in the middle between two numbers of a narrow dtype may be rounded either way.
    torch.manual_seed(0)


def _float8(dtype: torch.dtype, rows: int = 4, columns: int = 8) -> list[torch.Tensor]:
    """Return two matrices to multiply. The second is column-major, as torch's kernels require."""
    a, b = (torch.randn(size, 16).to(dtype) for size in (rows, columns))
    return [a, b.t()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [(3, 16, 8), (0, 16, 8), (1, 24, 5)])
def test_products_with_int8_weights(dtype: torch.dtype, size: tuple[int, int, int]) -> None:
    rows, inner, outer = size
    x = make_tensor(rows, inner, dtype=dtype, device="cpu", low=-2, high=2)
    weight = torch.randint(-128, 128, (outer, inner), dtype=torch.int8)
    scales = make_tensor(outer, dtype=dtype, device="cpu", low=0, high=0.1)
    # In half precision, the CPU rounds intermediate sums.
    expect = None if dtype == torch.float32 else _rounded_once
    check(aten._weight_int8pack_mm.default, x, weight, scales, expect=expect)


@pytest.mark.parametrize("dtype", _FLOAT8)
@pytest.mark.parametrize("out_dtype", [None, torch.float32, torch.bfloat16, torch.float16])
def test_float8_products_with_one_scale(dtype: torch.dtype, out_dtype: torch.dtype | None) -> None:
    a, b = _float8(dtype)
    scales = torch.tensor(0.5), torch.tensor([[3.0]])
    check(aten._scaled_mm.default, a, b, *scales, out_dtype=out_dtype)
    if has_operator("aten::_scaled_mm_v2"):
        check(aten._scaled_mm_v2.default, a, b, *_lists(*scales, recipe=0), None, out_dtype)


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16])
def test_float8_products_with_scales_of_rows_and_columns(out_dtype: torch.dtype) -> None:
    a, b = _float8(torch.float8_e4m3fn)
    scales = torch.rand(4, 1), torch.rand(1, 8)
    check(aten._scaled_mm.default, a, b, *scales, out_dtype=out_dtype)
    if has_operator("aten::_scaled_mm_v2"):
        check(aten._scaled_mm_v2.default, a, b, *_lists(*scales, recipe=1), None, out_dtype)


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16])
def test_a_bias_is_not_scaled(out_dtype: torch.dtype) -> None:
    a, b = _float8(torch.float8_e4m3fn)
    bias = torch.randn(8, dtype=out_dtype)
    scales = torch.tensor(0.01), torch.tensor(0.1)
    check(aten._scaled_mm.default, a, b, *scales, bias=bias, out_dtype=out_dtype)


@pytest.mark.parametrize("dtype", _FLOAT8)
def test_a_float8_result_that_overflows(dtype: torch.dtype) -> None:
    a, b = _float8(dtype)
    scales = torch.tensor(1e4), torch.tensor(1e4)
    check(aten._scaled_mm.default, a, b, *scales)


@pytest.mark.parametrize("out_dtype", [torch.float8_e4m3fn, torch.float32])
def test_the_scale_of_a_float8_result(out_dtype: torch.dtype) -> None:
    a, b = _float8(torch.float8_e4m3fn)
    scales = torch.tensor(0.5), torch.tensor(3.0)
    check(
        aten._scaled_mm.default, a, b, *scales, scale_result=torch.tensor(2.0), out_dtype=out_dtype
    )


def _rounded_once(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (x.float() @ weight.float().t() * scales.float()).to(x.dtype)


def _lists(scale_a: torch.Tensor, scale_b: torch.Tensor, *, recipe: int) -> list[list[object]]:
    """Return the scales, recipes and swizzles of both operands, as _scaled_mm_v2 takes them."""
    return [[scale_a], [recipe], [0], [scale_b], [recipe], [0]]


@pytest.mark.parametrize("mode", ["strict", "fused", "compile"])
def test_products_of_sizes_that_cuda_rejects(mode: str) -> None:
    def products(*tensors: torch.Tensor) -> list[torch.Tensor]:
        a, b, scale_a, scale_b, x, weight, scales = tensors
        scaled = torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.float32)
        return [scaled, torch._weight_int8pack_mm(x, weight, scales)]

    a, b = _float8(torch.float8_e4m3fn, rows=3, columns=5)
    weight = torch.randint(-128, 128, (5, 24), dtype=torch.int8)
    arguments = [a, b, torch.rand(3, 1), torch.rand(1, 5), torch.rand(3, 24), weight, torch.rand(5)]
    function = torch.compile(products) if mode == "compile" else products
    with torch.tpu.eager_mode("fused" if mode == "fused" else "strict"):
        actual = [result.cpu() for result in function(*(x.to("tpu") for x in arguments))]
    torch.testing.assert_close(actual, products(*arguments))
