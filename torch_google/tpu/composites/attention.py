# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention, with a fused forward operator and a fused backward operator.

torch (v2.6 and v2.13) calls fused operators only for a fixed list of device types. For all others,
it uses the math (unfused) implementation, a series of smaller operators, without calling
`_fused_sdp_choice`. So this module calls the fused operator itself.

The fused operator always runs as a program. If CPU kernels may run the call, attention without
dropout calls what attention on the CPU calls, so that a new number of tokens compiles nothing: the
CPU's fused operator or the math implementation. Graphs of torch.compile use the math implementation
if sizes are symbolic, and the device's fused operator otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._guards import detect_fake_mode

from torch_google.tpu import _C
from torch_google.tpu.release import V2_6, V2_15

_OP = torch.ops.aten.scaled_dot_product_attention.default
# The dtypes of the CPU's fused operator.
_CPU_FUSED_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
    if V2_15 and query.dim() == key.dim() == value.dim() == 3:
        # From v2.15, the CPU's fused operator also accepts inputs without a batch.
        q, k, v = (t.unsqueeze(0) for t in (query, key, value))
        if _is_plain(q, k, v, enable_gqa) and (attn_mask is None or attn_mask.dim() <= 3):
            return _attention(q, k, v, attn_mask, dropout_p, is_causal, **options).squeeze(0)
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    fits = (
        _is_plain(query, key, value, enable_gqa)
        and (attn_mask is None or (not is_causal and _is_mask(attn_mask, query, key)))
        and 0 <= dropout_p <= 1
    )
    may_use_kernels = fits and dropout_p == 0 and _C.uses_cpu_kernels()
    is_traced = may_use_kernels and detect_fake_mode(tensors) is not None
    if (
        may_use_kernels
        and not is_traced
        and _uses_cpu_fused_attention(query, key, value, attn_mask)
    ):
        return _call_cpu_fused_attention(query, key, value, attn_mask, is_causal, scale)
    # Use the math implementation for any call that the fused operator does not support. It also
    # raises torch's errors for invalid calls.
    if not fits or (may_use_kernels and (not is_traced or _has_symbolic_sizes(tensors))):
        formula = DispatchKey.CompositeImplicitAutograd
        result: torch.Tensor = _OP._op_dk(
            formula, query, key, value, attn_mask, dropout_p, is_causal, **options
        )
        if (
            is_traced
            and query.shape[3] == value.shape[3]
            and query.transpose(1, 2).is_contiguous()
            and not query.is_contiguous()
        ):
            # The fused operator gives its result the layout of the query, as the CPU does.
            return result.transpose(1, 2).contiguous().transpose(1, 2)
        return result
    results = torch.ops.aten._scaled_dot_product_efficient_attention.default(
        query,
        key,
        value,
        attn_mask,
        torch.is_grad_enabled() and any(t.requires_grad for t in tensors),
        dropout_p,
        is_causal,
        scale=scale,
    )
    out: torch.Tensor = results[0]
    return out


def _has_symbolic_sizes(tensors: list[torch.Tensor]) -> bool:
    return any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)


def _uses_cpu_fused_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> bool:
    """Return whether to call the CPU's fused operator for a call that `_is_plain` accepts.

    The CPU must call it as well. Subclasses of Tensor such as DTensor may not support it.
    """
    return (
        all(type(t) in _PLAIN_TYPES for t in (query, key, value))
        and query.dtype in _CPU_FUSED_DTYPES
        and query.shape[3] == value.shape[3]
        and all(t.shape[3] == 1 or t.stride(3) == 1 for t in (query, key, value))
        and (mask is None or (mask.dim() in (2, 4) and not mask.requires_grad))
    )


def _call_cpu_fused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Call the CPU's fused operator, which does not support boolean masks."""
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -math.inf).to(query.dtype)
    repeats = query.shape[1] // key.shape[1]
    if V2_6 and repeats > 1:  # v2.6 does not support shared key heads
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    result: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )[0]
    return result


def _is_plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, enable_gqa: bool) -> bool:
    """Return whether the fused operator supports a call, ignoring the call's mask.

    It supports neither broadcasting nor torch.func transforms.
    """
    if not q.dim() == k.dim() == v.dim() == 4 or torch._C._functorch.peek_interpreter_stack():
        return False
    heads, shared = q.shape[1], k.shape[1]
    return (
        q.shape[0] == k.shape[0] == v.shape[0]
        and q.shape[3] == k.shape[3]
        and k.shape[2] == v.shape[2]
        and shared == v.shape[1]
        and (heads == shared or (enable_gqa and shared > 0 and heads % shared == 0))
        and q.dtype == k.dtype == v.dtype
        and q.is_floating_point()
        and q.numel() > 0
        and v.numel() > 0
    )


def _is_mask(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> bool:
    """Return whether torch allows the mask's dtype and the mask can be broadcast to the scores."""
    scores = (*q.shape[:3], k.shape[2])
    return (
        mask.dtype in (torch.bool, torch.float32, q.dtype)
        and mask.dim() <= len(scores)
        and all(m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores), strict=False))
    )


KERNELS: dict[str, Callable[..., Any]] = {"scaled_dot_product_attention": _attention}
"""The implementation of each operator, by name and overload."""
