# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax
import pytest
import torch

from torch_google.tpu.lowerings import attention
from torch_google.tpu.lowerings.against_cpu import check, lowered, to_array
from torch_google.tpu.release import V2_6

aten = torch.ops.aten
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def inputs(dtype: torch.dtype = torch.float32, q: Any = 5, k: Any = 7, heads: Any = 4) -> Any:
    return (
        torch.randn(2, heads, q, 8).to(dtype),
        torch.randn(2, heads, k, 8).to(dtype),
        torch.randn(2, heads, k, 8).to(dtype),
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_flash(causal: Any, masked: Any) -> None:
    if causal and masked:
        pytest.skip("torch accepts only one of them")
    q, k, v = inputs()
    options: dict[str, Any] = {
        "scale": 0.3,
        "attn_mask": torch.randn(2, 1, 5, 7) if masked else None,
    }
    op = aten._scaled_dot_product_flash_attention_for_cpu.default
    check(op, q, k, v, 0.0, causal, **options, **CLOSE)
    out, lse = op(q, k, v, 0.0, causal, **options)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    args = (torch.randn_like(out), q, k, v, out, lse, 0.0, causal)
    check(backward, *args, **options, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_flash_in_other_dtypes(dtype: torch.dtype) -> None:
    op = aten._scaled_dot_product_flash_attention_for_cpu.default
    rounded = V2_6 and dtype == torch.bfloat16  # in v2.6, torch rounds each product before adding
    loose: dict[str, Any] = {"rtol": 1e-2, "atol": 1e-2} if rounded else {}
    check(op, *inputs(dtype), 0.0, True, **loose)


def test_fused_matches_math_and_its_gradient() -> None:
    q, k, v = (x.requires_grad_() for x in inputs(torch.float64))
    bias = torch.randn(5, 7).double().requires_grad_()
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)
    grad = torch.randn_like(out)
    out.backward(grad)
    op = aten._scaled_dot_product_fused_attention_overrideable.default
    got = lowered(op, q, k, v, bias)
    assert abs(got[0] - out.detach().numpy()).max() < 1e-12
    assert got[1].shape == (2, 4, 5)
    backward = aten._scaled_dot_product_fused_attention_overrideable_backward.default
    seed = torch.tensor(5)
    lse = torch.tensor(got[1].tolist())
    args = (grad, q, k, v, bias, [True] * 4, out, lse, None, None, 5, 7, 0.0, False, seed, seed)
    for actual, leaf in zip(lowered(backward, *args), (q, k, v, bias), strict=True):
        assert abs(actual - leaf.grad.numpy()).max() < 1e-10


def test_a_row_that_sees_nothing_is_zero() -> None:
    q, k, v = map(to_array, inputs())
    mask = to_array(torch.zeros(5, 7, dtype=torch.bool))
    out = attention.efficient_attention(q, k, v, mask, True, key=jax.random.key(0))
    assert not out[0].any()
    assert out[1].shape == (2, 4, 32)


def test_the_gradient_meets_the_mask_of_dropout() -> None:
    q, k, v = (x.double() for x in inputs())
    # Use the identity matrix as the values, so that the output equals the weights.
    v = torch.eye(7, dtype=torch.float64).expand(2, 4, 7, 7)
    op = aten._scaled_dot_product_efficient_attention.default
    out, lse, seed, offset = lowered(op, q, k, v, None, True, 0.5)
    dropped = (out == 0).mean()
    assert 0.35 < dropped < 0.65
    backward = aten._scaled_dot_product_efficient_attention_backward.default
    tensors = [torch.tensor(x.tolist()) for x in (out, lse, seed, offset)]
    args = (
        torch.ones(2, 4, 5, 7).double(),
        q,
        k,
        v,
        None,
        *tensors,
        0.5,
        [False, False, True, False],
    )
    _, _, of_v, _ = lowered(backward, *args)
    # d(sum out)/dv[k, d] = sum over q of the weight (q, k) after dropout
    assert abs(of_v[..., 0] - out.sum(-2)).max() < 1e-9


def test_grouped_queries() -> None:
    q, k, v = inputs()
    k, v = k[:, :2], v[:, :2]
    out, _ = lowered(aten._scaled_dot_product_flash_attention_for_cpu.default, q, k, v)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert abs(out - want.numpy()).max() < 1e-5


def test_the_gradient_of_some_of_the_keys() -> None:
    """`k` and `v` may be parts of those that produced `out`, as in context parallelism."""
    q, k, v = (x.requires_grad_() for x in inputs())
    scores = q @ k.transpose(-1, -2) / 8**0.5
    out, lse = scores.softmax(-1) @ v, scores.logsumexp(-1)
    grad = torch.randn_like(out)
    out.backward(grad)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    results = [
        lowered(backward, grad, q, k[:, :, part], v[:, :, part], out, lse, 0.0, False)
        for part in (slice(0, 3), slice(3, 7))
    ]
    assert abs(results[0][0] + results[1][0] - q.grad.numpy()).max() < 1e-5
    for index, leaf in ((1, k), (2, v)):
        parts = [torch.tensor(r[index].tolist()) for r in results]
        torch.testing.assert_close(torch.cat(parts, 2), leaf.grad, **CLOSE)
