# SPDX-License-Identifier: Apache-2.0
"""Compare flex_attention with a formula, because torch has no gradient of it on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

_ROWS, _KEYS, _SIZE = 12, 20, 8
_SLOPES = torch.tensor([0.1, -0.2, 0.3, 0.0])


def _biased(score: Any, b: Any, h: Any, row: Any, key: Any) -> Any:
    return torch.tanh(score) + 0.1 * (row - key) + h


def _window(b: Any, h: Any, row: Any, key: Any) -> Any:
    return (row >= key) & (row - key < 5) & (row != 3)


def _inputs(
    batch: int = 2, heads: int = 4, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """Return queries, keys and values. The queries have two batch entries and four heads."""
    shapes = (2, 4, _ROWS), (batch, heads, _KEYS), (batch, heads, _KEYS)
    return [torch.randn(*shape, _SIZE).to(dtype).requires_grad_() for shape in shapes]


def _expected(inputs: list[torch.Tensor], score_mod: Any, mask_mod: Any) -> Any:
    """Return the output, with zeros for rows without keys, and the logsumexp."""
    query, key, value = inputs
    key, value = (
        x.repeat_interleave(4 // x.shape[1], 1).expand(2, 4, -1, -1).float() for x in (key, value)
    )
    scores = query.float() @ key.mT / math.sqrt(_SIZE)
    sizes = enumerate(scores.shape)
    indices = [torch.arange(n).reshape([-1 if i == j else 1 for j in range(4)]) for i, n in sizes]
    if score_mod:
        scores = score_mod(scores, *indices)
    if mask_mod:
        scores = scores.masked_fill(~mask_mod(*indices), -math.inf)
    weights = scores.softmax(-1).nan_to_num(0)
    return (weights @ value).to(query.dtype), scores.logsumexp(-1)


def _check(
    compiled: bool,
    inputs: list[torch.Tensor],
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    *,
    on_device: Callable[..., Any] | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Compare outputs and gradients. `on_device` replaces `score_mod` on the device."""
    copies = [x.detach().to("tpu").requires_grad_() for x in inputs]
    mask = mask_mod and create_block_mask(mask_mod, 2, None, _ROWS, _KEYS, device="tpu")
    function: Any = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
    options = {"score_mod": on_device or score_mod, "block_mask": mask}
    out, lse = function(*copies, **options, enable_gqa=True, return_lse=True)
    expected = _expected(inputs, score_mod, mask_mod)
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close((out.cpu(), lse.cpu()), expected, **close)
    if tolerance > 1e-4:
        return
    for result, logsumexp in ((out, lse), expected):
        finite = logsumexp.isfinite()
        (result.square().sum() + torch.where(finite, logsumexp, 0).sum()).backward()
    actual = [x.grad.cpu() for x in copies if x.grad is not None]
    grads = [torch.nan_to_num(x.grad) for x in inputs if x.grad is not None]
    assert len(actual) == len(grads) == 3
    torch.testing.assert_close(actual, grads, **close)


@pytest.mark.parametrize("compiled", [False, True])
def test_score_mod_and_mask_mod_with_a_row_without_keys(compiled: bool) -> None:
    _check(compiled, _inputs(), _biased, _window)


@pytest.mark.parametrize("compiled", [False, True])
def test_groups_of_heads_and_a_shared_batch_entry(compiled: bool) -> None:
    _check(compiled, _inputs(batch=1, heads=2), _biased, _window)


@pytest.mark.parametrize("compiled", [False, True])
def test_score_mod_reads_a_tensor(compiled: bool) -> None:
    slopes = _SLOPES.to("tpu")
    _check(
        compiled,
        _inputs(),
        lambda score, b, h, row, key: score + _SLOPES[h] * (row - key),
        on_device=lambda score, b, h, row, key: score + slopes[h] * (row - key),
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16(compiled: bool) -> None:
    _check(compiled, _inputs(dtype=torch.bfloat16), None, _window, tolerance=2e-2)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_of_a_tensor_that_score_mod_reads(compiled: bool) -> None:
    def score_mod(score: Any, b: Any, h: Any, row: Any, key: Any) -> Any:
        return score * slopes[h] + offsets[h, row]

    slopes, offsets = (torch.randn(*size, requires_grad=True) for size in ((4,), (4, _ROWS)))
    inputs = [x.detach() for x in _inputs()]
    out, _ = _expected(inputs, score_mod, None)
    expected = torch.autograd.grad(out.square().sum(), (slopes, offsets))
    slopes, offsets = (x.detach().to("tpu").requires_grad_() for x in (slopes, offsets))
    function = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
    out = function(*(x.to("tpu") for x in inputs), score_mod=score_mod)
    actual = torch.autograd.grad(out.square().sum(), (slopes, offsets))
    torch.testing.assert_close([x.cpu() for x in actual], list(expected), rtol=1e-4, atol=1e-4)


_SLOPE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "detach": lambda slope: slope * slope.detach(),
    "relu": torch.relu,
    "abs": torch.abs,
    "clamp": lambda slope: slope.clamp(min=0),
    "hardtanh": lambda slope: torch.nn.functional.hardtanh(slope, 0.0, 1.0),
}


@pytest.mark.parametrize("function", _SLOPE.values(), ids=_SLOPE)
def test_the_gradient_follows_torchs_formulas(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """JAX differentiates these functions differently at 0 and 1, where parameters often start."""
    slopes = torch.tensor([0.0, 1.0, -0.5, 0.7], requires_grad=True)

    def score_mod(score: Any, b: Any, h: Any, row: Any, key: Any) -> Any:
        return score + function(slopes[h]) * (row - key)

    inputs = [x.detach() for x in _inputs()]
    out, _ = _expected(inputs, score_mod, _window)
    (expected,) = torch.autograd.grad(out.square().sum(), slopes)
    slopes = slopes.detach().to("tpu").requires_grad_()
    mask = create_block_mask(_window, None, None, _ROWS, _KEYS, device="tpu")
    compiled = torch.compile(flex_attention, fullgraph=True)
    out = compiled(*(x.to("tpu") for x in inputs), score_mod=score_mod, block_mask=mask)
    (actual,) = torch.autograd.grad(out.square().sum(), slopes)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast(compiled: bool) -> None:
    inputs = [x.detach() for x in _inputs()]
    expected, _ = _expected([x.bfloat16() for x in inputs], _biased, None)
    copies = [x.to("tpu").requires_grad_() for x in inputs]
    function = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
    with torch.autocast("tpu"):
        out = function(*copies, score_mod=_biased)
    torch.testing.assert_close(out.cpu(), expected, rtol=2e-2, atol=2e-2)
    out.float().sum().backward()
    assert [x.grad.dtype for x in copies if x.grad is not None] == [torch.float32] * 3


def test_random_numbers_in_score_mod_are_refused() -> None:
    query, key, value = (x.detach().to("tpu") for x in _inputs())

    def noisy(score: Any, b: Any, h: Any, row: Any, column: Any) -> Any:
        return score + torch.rand_like(score)

    with pytest.raises(
        NotImplementedError, match="cannot draw random numbers. Draw a tensor before"
    ):
        torch.compile(flex_attention)(query, key, value, score_mod=noisy)
