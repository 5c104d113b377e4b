# SPDX-License-Identifier: Apache-2.0
"""The cells of LSTM and GRU as torch has them for devices: gates in one row, activations kept.

A cell returns its workspace for the backward pass: of an LSTM the four gates after activation, of a
GRU the three gates, the hidden state, and the hidden half of the new gate.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering


def _lstm_meta(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, cx: torch.Tensor, *biases: object
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As torch's own meta kernel, which refuses a cell without bias."""
    contiguous = torch.contiguous_format
    hy, cy = (torch.empty_like(cx, memory_format=contiguous) for _ in range(2))
    return hy, cy, torch.empty_like(input_gates, memory_format=contiguous)


@lowering("aten::_thnn_fused_lstm_cell", meta=_lstm_meta)
def lstm_cell(
    input_gates: jax.Array,
    hidden_gates: jax.Array,
    cx: jax.Array,
    input_bias: jax.Array | None = None,
    hidden_bias: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    i, f, g, o = jnp.split(gates, 4, -1)
    i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
    cy = f * opmath(cx) + i * g
    return o * jnp.tanh(cy), cy, jnp.concatenate([i, f, g, o], -1)


@lowering("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hy: jax.Array | None,
    grad_cy: jax.Array | None,
    cx: jax.Array,
    cy: jax.Array,
    workspace: jax.Array,
    has_bias: bool,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    cx, cell = opmath(cx), jnp.tanh(opmath(cy))
    i, f, g, o = jnp.split(opmath(workspace), 4, -1)
    of_hy = jnp.zeros_like(cell) if grad_hy is None else opmath(grad_hy)
    of_cy = of_hy * o * (1 - cell * cell)
    if grad_cy is not None:
        of_cy = of_cy + opmath(grad_cy)
    gates = jnp.concatenate(
        [
            of_cy * g * (1 - i) * i,
            of_cy * cx * (1 - f) * f,
            of_cy * i * (1 - g * g),
            of_hy * cell * (1 - o) * o,
        ],
        -1,
    )
    return gates, of_cy * f, gates.sum(0) if has_bias else None


@lowering("aten::_thnn_fused_gru_cell")
def gru_cell(
    input_gates: jax.Array,
    hidden_gates: jax.Array,
    hx: jax.Array,
    input_bias: jax.Array | None = None,
    hidden_bias: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    of_input = jnp.split(_biased(input_gates, input_bias), 3, -1)
    of_hidden = jnp.split(_biased(hidden_gates, hidden_bias), 3, -1)
    hx = opmath(hx)
    reset = jax.nn.sigmoid(of_input[0] + of_hidden[0])
    update = jax.nn.sigmoid(of_input[1] + of_hidden[1])
    new = jnp.tanh(of_input[2] + reset * of_hidden[2])
    workspace = jnp.concatenate([reset, update, new, hx, of_hidden[2]], -1)
    return new + update * (hx - new), workspace


@lowering("aten::_thnn_fused_gru_cell_backward")
def gru_cell_backward(
    grad_hy: jax.Array, workspace: jax.Array, has_bias: bool
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None, jax.Array | None]:
    reset, update, new, hx, hidden = jnp.split(opmath(workspace), 5, -1)
    grad = opmath(grad_hy)
    of_update = grad * (hx - new) * (1 - update) * update
    of_new = grad * (1 - update) * (1 - new * new)
    of_reset = of_new * hidden * (1 - reset) * reset
    to_input = jnp.concatenate([of_reset, of_update, of_new], -1)
    to_hidden = jnp.concatenate([of_reset, of_update, of_new * reset], -1)
    biases = (to_input.sum(0), to_hidden.sum(0)) if has_bias else (None, None)
    return to_input, to_hidden, grad * update, *biases


def _biased(gates: jax.Array, bias: jax.Array | None) -> jax.Array:
    gates = opmath(gates)
    return gates if bias is None else gates + opmath(bias)
