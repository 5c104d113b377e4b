# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check
from torch_google.tpu.lowerings.ctc_loss import ctc_loss, ctc_loss_backward

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("zero_infinity", [True, False])
def test_loss_and_gradient(dtype: torch.dtype, flat: Any, zero_infinity: Any) -> None:
    log_probs = torch.randn(8, 5, 6).to(dtype).log_softmax(-1)
    # The cases: repeated targets, an empty target, and a target that is longer than its input.
    targets = torch.tensor([[1, 1, 2, 3], [4, 4, 4, 0], [5, 0, 0, 0], [1, 2, 3, 4], [2, 3, 0, 0]])
    inputs, lengths = [8, 7, 8, 3, 5], [4, 3, 0, 4, 2]
    if flat:
        targets = torch.cat([row[:n] for row, n in zip(targets, lengths, strict=True)])
    options = (0, zero_infinity)
    loss, alpha = aten._ctc_loss.default(log_probs, targets, inputs, lengths, *options)
    check(aten._ctc_loss.default, log_probs, targets, inputs, lengths, *options, only=1)
    grad = torch.rand(5).to(dtype)
    args = (grad, log_probs, targets, inputs, lengths, loss, alpha, *options)
    finite = loss.isfinite()

    def expect(*args: Any) -> Any:
        return aten._ctc_loss_backward.default(*args)

    if zero_infinity or finite.all():
        check(aten._ctc_loss_backward.default, *args, expect=expect, rtol=1e-4, atol=1e-5)
    tensors = torch.tensor(inputs), torch.tensor(lengths)
    check(aten._ctc_loss.Tensor, log_probs, targets, *tensors, *options, only=1)


def test_another_blank() -> None:
    log_probs = torch.randn(6, 2, 4).log_softmax(-1)
    targets = torch.tensor([[0, 1, 1], [2, 0, 2]])
    args = (log_probs, targets, [6, 5], [3, 3], 3)
    check(aten._ctc_loss.default, *args, only=1)
    loss, alpha = aten._ctc_loss.default(*args)
    backward = (torch.ones(2), *args[:4], loss, alpha, 3)
    check(aten._ctc_loss_backward.default, *backward, rtol=1e-4, atol=1e-5)


@pytest.mark.full
def test_programs_do_not_grow_with_the_targets() -> None:
    def size(count: int) -> int:
        log_probs, targets = jnp.zeros((100, 2, 4)), jnp.ones((2, count), jnp.int32)
        lengths = [100, 100], [count, count]
        loss, alpha = ctc_loss(log_probs, targets, *lengths)

        def backward(log_probs: jax.Array) -> jax.Array:
            return ctc_loss_backward(loss, log_probs, targets, *lengths, loss, alpha, 0)

        return str(jax.make_jaxpr(backward)(log_probs)).count(" = ")

    assert size(40) == size(4)
