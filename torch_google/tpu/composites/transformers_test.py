# SPDX-License-Identifier: Apache-2.0
"""Results of transformer modules match those on the CPU, with and without torch's fast path."""

from __future__ import annotations

import copy

import pytest
import torch

PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(5)


def close(actual: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    assert (actual is None) == (expected is None)
    if actual is not None and expected is not None:
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_in_inference(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, activation="gelu", batch_first=True, norm_first=norm_first
    )
    cpu_encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    device_encoder = copy.deepcopy(cpu_encoder).to("tpu")
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        close(device_encoder(x.to("tpu")), cpu_encoder(x))
        close(
            device_encoder(x.to("tpu"), mask=CAUSAL.to("tpu"), is_causal=True),
            cpu_encoder(x, mask=CAUSAL, is_causal=True),
        )
        actual = device_encoder(x.to("tpu"), src_key_padding_mask=PADDING.to("tpu"))
        expected = cpu_encoder(x, src_key_padding_mask=PADDING)
        close(actual[0], expected[0])
        close(actual[1, :3], expected[1, :3])  # padding may contain any value


@pytest.mark.parametrize("average", [False, True])
def test_attention_in_inference(average: bool) -> None:
    torch.manual_seed(0)
    cpu_attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    device_attention = copy.deepcopy(cpu_attention).to("tpu")
    x = torch.randn(2, 5, 8)
    y = x.to("tpu")
    with torch.no_grad():
        for options in ({}, {"key_padding_mask": PADDING}):
            device_options = {name: mask.to("tpu") for name, mask in options.items()}
            actual = device_attention(y, y, y, average_attn_weights=average, **device_options)
            expected = cpu_attention(x, x, x, average_attn_weights=average, **options)
            close(actual[0], expected[0])
            close(actual[1], expected[1])
        close(
            device_attention(y, y, y, need_weights=False)[0],
            cpu_attention(x, x, x, need_weights=False)[0],
        )


def test_training() -> None:
    torch.manual_seed(0)
    cpu_decoder = torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    device_decoder = copy.deepcopy(cpu_decoder).to("tpu")
    x = torch.randn(2, 5, 8)
    for module, inputs in ((cpu_decoder, x), (device_decoder, x.to("tpu"))):
        module(inputs, inputs).pow(2).sum().backward()
    for one, other in zip(device_decoder.parameters(), cpu_decoder.parameters(), strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-3, atol=1e-4)
