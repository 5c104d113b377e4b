# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm's operators match batch_norm when two parts of a batch stand in for two ranks."""

from __future__ import annotations

import pytest
import torch

EPS, MOMENTUM = 1e-5, 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 4, 2)])
def test_parts_are_normalized_as_one_batch(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype).requires_grad_()
    weight, bias = torch.rand(3).requires_grad_(), torch.rand(3).requires_grad_()
    mean, var = torch.zeros(3), torch.ones(3)
    expected = torch.nn.functional.batch_norm(
        x.float(), mean, var, weight, bias, True, MOMENTUM, EPS
    ).to(dtype)
    gradient = torch.randn(shape).to(dtype)
    expected.backward(gradient)

    parts = [part.to("tpu") for part in x.detach().split([2, 3])]
    on_tpu = {name: t.detach().to("tpu") for name, t in (("weight", weight), ("bias", bias))}
    stats = [torch.batch_norm_stats(part, EPS) for part in parts]
    counts = torch.tensor([float(part.numel() // 3) for part in parts], device="tpu")
    running = torch.zeros(3, device="tpu"), torch.ones(3, device="tpu")
    total, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], *map(torch.stack, zip(*stats, strict=True)), *running, MOMENTUM, EPS, counts
    )
    assert total.dtype == torch.float32
    torch.testing.assert_close(running[0].cpu(), mean)
    torch.testing.assert_close(running[1].cpu(), var)
    result = [
        torch.batch_norm_elemt(part, on_tpu["weight"], on_tpu["bias"], total, invstd, EPS)
        for part in parts
    ]
    torch.testing.assert_close(torch.cat(result).cpu(), expected)

    gradients = [part.to("tpu") for part in gradient.split([2, 3])]
    sums = [
        torch.batch_norm_backward_reduce(g, p, total, invstd, on_tpu["weight"], True, True, True)
        for g, p in zip(gradients, parts, strict=True)
    ]
    sum_dy, sum_dy_xmu, to_weight, to_bias = (sum(each) for each in zip(*sums, strict=True))
    torch.testing.assert_close(to_weight.cpu(), weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(to_bias.cpu(), bias.grad)
    back = [
        torch.batch_norm_backward_elemt(
            g, p, total, invstd, on_tpu["weight"], sum_dy, sum_dy_xmu, counts.int()
        )
        for g, p in zip(gradients, parts, strict=True)
    ]
    torch.testing.assert_close(torch.cat(back).cpu(), x.grad)


def test_equal_counts_and_unrequested_sums() -> None:
    x = torch.randn(4, 3, device="tpu")
    mean, invstd = torch.batch_norm_stats(x, EPS)
    stats = mean[None].expand(2, 3), invstd[None].expand(2, 3)
    total, again = torch.batch_norm_gather_stats(x, *stats, None, None, MOMENTUM, EPS, 4)
    torch.testing.assert_close(total, mean)
    torch.testing.assert_close(again, invstd)
    sums = torch.batch_norm_backward_reduce(x, x, mean, invstd, None, True, False, False)
    assert sums[2] is None
    assert sums[3] is None
