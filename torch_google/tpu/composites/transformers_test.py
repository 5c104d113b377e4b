# SPDX-License-Identifier: Apache-2.0
"""Transformer modules in eval mode, where torch takes its fast path, and in training."""

from __future__ import annotations

import copy

import pytest
import torch

PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(5)


def close(ours: torch.Tensor | None, theirs: torch.Tensor | None) -> None:
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_in_inference(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, activation="gelu", batch_first=True, norm_first=norm_first
    )
    theirs = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    ours = copy.deepcopy(theirs).to("tpu")
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        close(ours(x.to("tpu")), theirs(x))
        close(
            ours(x.to("tpu"), mask=CAUSAL.to("tpu"), is_causal=True),
            theirs(x, mask=CAUSAL, is_causal=True),
        )
        actual = ours(x.to("tpu"), src_key_padding_mask=PADDING.to("tpu"))
        expected = theirs(x, src_key_padding_mask=PADDING)
        close(actual[0], expected[0])
        close(actual[1, :3], expected[1, :3])  # padding may hold any value


@pytest.mark.parametrize("average", [False, True])
def test_attention_in_inference(average: bool) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    ours = copy.deepcopy(theirs).to("tpu")
    x = torch.randn(2, 5, 8)
    y = x.to("tpu")
    with torch.no_grad():
        for options in ({}, {"key_padding_mask": PADDING}):
            given = {name: mask.to("tpu") for name, mask in options.items()}
            actual = ours(y, y, y, average_attn_weights=average, **given)
            expected = theirs(x, x, x, average_attn_weights=average, **options)
            close(actual[0], expected[0])
            close(actual[1], expected[1])
        close(ours(y, y, y, need_weights=False)[0], theirs(x, x, x, need_weights=False)[0])


def test_training() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    ours = copy.deepcopy(theirs).to("tpu")
    x = torch.randn(2, 5, 8)
    for module, given in ((theirs, x), (ours, x.to("tpu"))):
        module(given, given).pow(2).sum().backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-3, atol=1e-4)
