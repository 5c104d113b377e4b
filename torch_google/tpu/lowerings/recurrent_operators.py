# SPDX-License-Identifier: Apache-2.0
"""Defines `torch_google::recurrent_layer`, for one layer in one direction, and its gradient.

torch runs a layer as many small operators, or as one operator that calls a vendor library. So this
module defines its own operator. It also defines meta kernels for single cells, because torch has
them only for its own devices.
"""

from __future__ import annotations

from typing import TypeAlias

import torch

from torch_google.tpu.release import override

_OURS = torch.library.Library("torch_google", "FRAGMENT")
_META = torch.library.Library("aten", "IMPL", "Meta")
_OURS.define(
    "recurrent_layer(Tensor input, Tensor hx, Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, "
    "Tensor? b_hh, Tensor? w_hr, Tensor? lengths, str kind, bool reverse) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_OURS.define(
    "recurrent_layer_backward(Tensor grad, Tensor grad_hy, Tensor grad_cy, Tensor input, "
    "Tensor hx, Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? w_hr, "
    "Tensor? lengths, Tensor states, Tensor gates, Tensor cells, str kind, bool reverse) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_Maybe: TypeAlias = torch.Tensor | None


def _layer(
    x: torch.Tensor,
    hx: torch.Tensor,
    cx: _Maybe,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: _Maybe,
    b_hh: _Maybe,
    w_hr: _Maybe,
    lengths: _Maybe,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, ...]:
    steps, batch, _ = x.shape
    rows = w_hh.shape[0]
    size = rows // {"lstm": 4, "gru": 3}.get(kind, 1)
    gates = x.new_empty(steps, batch, 4 * size if kind == "gru" else rows)
    states = x.new_empty(steps, batch, hx.shape[-1])
    if cx is None:
        return states, torch.empty_like(hx), x.new_empty(0), gates, x.new_empty(0)
    return states, torch.empty_like(hx), torch.empty_like(cx), gates, x.new_empty(steps, *cx.shape)


def _layer_backward(
    grad: torch.Tensor,
    grad_hy: torch.Tensor,
    grad_cy: torch.Tensor,
    x: torch.Tensor,
    hx: torch.Tensor,
    cx: _Maybe,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: _Maybe,
    w_hr: _Maybe,
    *rest: object,
) -> tuple[torch.Tensor, ...]:
    def like(tensor: _Maybe) -> torch.Tensor:
        return x.new_empty(0) if tensor is None else torch.empty_like(tensor)

    others = (hx, cx, w_ih, w_hh, b_ih, b_ih, w_hr)
    return x.new_empty(x.shape), *(like(t) for t in others)


def _lstm_cell(
    of_input: torch.Tensor, of_state: torch.Tensor, cx: torch.Tensor, *biases: _Maybe
) -> tuple[torch.Tensor, ...]:
    return torch.empty_like(cx), torch.empty_like(cx), torch.empty_like(of_input)


def _lstm_cell_backward(
    grad_hy: _Maybe,
    grad_cy: _Maybe,
    cx: torch.Tensor,
    cy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> tuple[_Maybe, ...]:
    bias = workspace.new_empty(workspace.shape[1:]) if has_bias else None
    return torch.empty_like(workspace), torch.empty_like(cx), bias


def _gru_cell(
    of_input: torch.Tensor, of_state: torch.Tensor, hx: torch.Tensor, *biases: _Maybe
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(hx), hx.new_empty(hx.shape[0], 5 * hx.shape[1])


def _gru_cell_backward(
    grad_hy: torch.Tensor, workspace: torch.Tensor, has_bias: bool
) -> tuple[_Maybe, ...]:
    def gates(*lead: int) -> torch.Tensor:
        return workspace.new_empty(*lead, 3 * grad_hy.shape[1])

    rows = grad_hy.shape[0]
    biases = (gates(), gates()) if has_bias else (None, None)
    return gates(rows), gates(rows), torch.empty_like(grad_hy), *biases


_OURS.impl("recurrent_layer", _layer, "Meta")
_OURS.impl("recurrent_layer_backward", _layer_backward, "Meta")
override(_META, "_thnn_fused_lstm_cell", _lstm_cell)
override(_META, "_thnn_fused_lstm_cell_backward_impl", _lstm_cell_backward)
override(_META, "_thnn_fused_gru_cell", _gru_cell)
override(_META, "_thnn_fused_gru_cell_backward", _gru_cell_backward)
