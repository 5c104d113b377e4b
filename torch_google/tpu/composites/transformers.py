# SPDX-License-Identifier: Apache-2.0
"""The inference fast path of torch's transformer modules, composed of the tpu device's operators.

torch.nn takes the fast path whenever it can, so transformers in eval mode would fail without these
operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

# Values of mask_type. The third value, 2, means that `mask` already combines the other two kinds of
# mask, separately for each head.
_SRC_MASK, _PADDING_MASK = 0, 1


def _encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    def attend(x: torch.Tensor) -> torch.Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _attention(x, x, x, embed_dim, num_heads, *weights, mask, False, True, mask_type)[0]

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        return functional.linear(
            functional.gelu(hidden) if use_gelu else functional.relu(hidden),
            ffn_weight_2,
            ffn_bias_2,
        )

    def first(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(first(src))
        return x + feed_forward(second(x))
    x = first(src + attend(src))
    return second(x + feed_forward(x))


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute `_native_multi_head_attention`. If `need_weights` is False, the weights are empty."""
    if query is key and key is value:
        parts = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        parts = tuple(
            functional.linear(x, weight, bias)
            for x, weight, bias in zip(
                (query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True
            )
        )
    q, k, v = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in parts)
    visible = None if mask is None else _visible_keys(mask, mask_type)
    if not need_weights:
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        weights = query.new_empty(0)
    else:
        scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
        scores = scores if visible is None else scores.masked_fill(~visible, -torch.inf)
        weights = scores.softmax(-1)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    return functional.linear(out.transpose(1, 2).flatten(-2), proj_weight, proj_bias), weights


def _visible_keys(mask: torch.Tensor, mask_type: int | None) -> torch.Tensor:
    """Return a mask of the keys that each query may attend to: (batch, heads, queries, keys)."""
    if mask_type == _PADDING_MASK:
        mask = mask[:, None, None, :]
    elif mask_type == _SRC_MASK and mask.dim() == 3:
        mask = mask[:, None]
    return mask.logical_not()


def _left_aligned(padded: torch.Tensor, mask: torch.Tensor) -> bool:
    """Return False, so that torch.nn does not convert padded batches to nested tensors.

    Nested tensors would need more programs.
    """
    return False


KERNELS: dict[str, Callable[..., Any]] = {
    "_native_multi_head_attention": _attention,
    "_nested_tensor_from_mask_left_aligned": _left_aligned,
    "_transformer_encoder_layer_fwd": _encoder_layer,
}
"""The implementation of each operator, by name and overload."""
