# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention has the same values, gradients and strides as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attend

from torch_google.tpu.release import V2_6


def inputs(heads: int = 4, shared: int = 4, keys: int = 6) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = [(2, heads, 6, 8), (2, shared, keys, 8), (2, shared, keys, 8)]
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("tpu").requires_grad_(tensor.requires_grad)


def agree(
    cpu_tensors: list[torch.Tensor], mask: torch.Tensor | None = None, **options: Any
) -> None:
    actual = []
    for move in (on_device, lambda t: t):
        tensors = [move(t) for t in cpu_tensors]
        bias = None if mask is None else move(mask)
        out = attend(*tensors, attn_mask=bias, **options)
        learned = [*tensors, bias] if bias is not None and bias.requires_grad else tensors
        actual.append([out, *torch.autograd.grad(out.pow(2).sum(), learned)])
    for device_result, cpu_result in zip(*actual, strict=True):
        torch.testing.assert_close(device_result.cpu(), cpu_result, rtol=1e-4, atol=1e-5)
        # If the bias needs a gradient, the CPU uses the math (unfused) implementation, whose
        # strides differ from the device's. In torch v2.6, it also does so if heads share keys and
        # values.
        shared = V2_6 and "enable_gqa" in options
        if not shared and (bias is None or not bias.requires_grad):
            assert device_result.stride() == cpu_result.stride()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_plain(options: dict[str, Any]) -> None:
    agree(inputs(), **options)


def test_masks() -> None:
    agree(inputs(keys=5), torch.rand(2, 1, 6, 5) > 0.3)
    agree(inputs(), torch.randn(6, 6, requires_grad=True))


def test_grouped_queries() -> None:
    agree(inputs(shared=2), enable_gqa=True)


def test_what_has_to_be_broadcast_or_has_no_batch() -> None:
    query, key, value = inputs()
    one = [t[:1].detach().requires_grad_() for t in (key, value)]
    agree([query, *one])
    agree([t[0].detach().requires_grad_() for t in (query, key, value)])


_INTEGERS = (torch.bool, torch.uint8, torch.int32, torch.int64)


@pytest.mark.parametrize("dims", [3, 4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [*_INTEGERS, torch.complex64])
def test_dtypes_that_the_cpu_refuses(dtype: torch.dtype, causal: bool, dims: int) -> None:
    query = torch.ones((1, 2, 3, 4)[-dims:]).to(dtype)
    with pytest.raises((RuntimeError, NotImplementedError)) as expected:
        attend(query, query, query, is_causal=causal)
    with pytest.raises(expected.type):
        attend(*[query.to("tpu")] * 3, is_causal=causal)


@pytest.mark.parametrize(
    "options",
    [
        {"attn_mask": torch.ones(3, 5, dtype=torch.int64)},
        {"attn_mask": torch.ones(3, 5, dtype=torch.float64)},
        {"attn_mask": torch.ones(3, 4)},
        {"attn_mask": torch.ones(7, 1, 3, 5)},
        {"attn_mask": torch.ones(1, 1, 1, 3, 5)},
        {"dropout_p": 1.5},
    ],
)
def test_options_that_the_cpu_refuses(options: dict[str, Any]) -> None:
    query, key = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)
    with pytest.raises(RuntimeError):
        attend(query, key, key, **options)
    moved = {k: v.to("tpu") if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    with pytest.raises(RuntimeError):
        attend(query.to("tpu"), key.to("tpu"), key.to("tpu"), **moved)


def test_one_operator_forward_and_one_backward() -> None:
    query, key, value = (on_device(t) for t in inputs())
    before = torch.tpu.metrics().operators
    out = attend(query, key, value, is_causal=True)
    assert torch.tpu.metrics().operators == before + 1
    out.backward(torch.ones_like(out))


def test_dropout_meets_the_same_mask_in_the_gradient() -> None:
    query, key, value = (on_device(t) for t in inputs())
    value = torch.eye(6, device="tpu").expand(2, 4, 6, 6).contiguous().requires_grad_()
    weights = attend(query, key, value, dropout_p=0.5)
    assert 0.3 < (weights == 0).float().mean().item() < 0.7
    (grad,) = torch.autograd.grad(weights.sum(), value)
    torch.testing.assert_close(grad[..., 0].cpu(), weights.sum(-2).detach().cpu())


def test_under_torch_func() -> None:
    query, key, value = (on_device(t).detach() for t in inputs())
    actual = torch.vmap(lambda q: attend(q, key, value))(torch.stack([query, query * 2]))
    torch.testing.assert_close(actual[1].cpu(), attend(query.cpu() * 2, key.cpu(), value.cpu()))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (1, 2, 2, 3, 4)])
def test_other_numbers_of_dimensions(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    agree([torch.randn(shape, requires_grad=True) for _ in range(3)])


def test_with_cpu_kernels_a_new_length_compiles_nothing() -> None:
    torch.tpu.set_cpu_kernels(True)
    try:
        for keys in (5, 7, 9, 11):
            torch.tpu.reset_metrics()
            expected = attend(*inputs(keys=keys))
            leaves = [on_device(tensor) for tensor in inputs(keys=keys)]
            out = attend(*leaves)
            torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
            assert out.stride() == expected.stride()
            out.sum().backward()
        assert torch.tpu.metrics().compiles == 0
    finally:
        torch.tpu.set_cpu_kernels(False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("mask", "options"),
    [
        (None, {}),
        (None, {"is_causal": True, "scale": 0.3}),
        (torch.ones(5, 7, dtype=torch.bool).tril(), {}),
        (torch.linspace(-1, 1, 70).reshape(2, 1, 5, 7), {}),
        (torch.linspace(-1, 1, 35).reshape(5, 7), {}),
        (None, {"enable_gqa": True}),
    ],
)
def test_cpu_kernels_match_values_and_strides_of_the_cpu(
    dtype: torch.dtype, transposed: bool, mask: torch.Tensor | None, options: dict[str, Any]
) -> None:
    def make_heads(length: int, count: int) -> torch.Tensor:
        sizes = (2, length, count, 8) if transposed else (2, count, length, 8)
        values = torch.randn(sizes, dtype=dtype)
        return values.transpose(1, 2) if transposed else values

    torch.manual_seed(0)
    key_heads = 2 if "enable_gqa" in options else 4
    tensors = [make_heads(5, 4), make_heads(7, key_heads), make_heads(7, key_heads)]
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)

    def run(device: str) -> list[torch.Tensor]:
        leaves = [tensor.to(device).requires_grad_() for tensor in tensors]
        out = attend(*leaves, None if mask is None else mask.to(device), **options)
        return [out, *torch.autograd.grad(out.square().sum(), leaves)]

    torch.tpu.set_cpu_kernels(True)
    torch.tpu.reset_metrics()
    try:
        results = run("tpu")
    finally:
        torch.tpu.set_cpu_kernels(False)
    assert torch.tpu.metrics().compiles == 0
    rtol = 2e-2 if dtype == torch.bfloat16 else 1e-4
    for actual, expected in zip(results, run("cpu"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=rtol / 10)
        assert actual.stride() == expected.stride()
