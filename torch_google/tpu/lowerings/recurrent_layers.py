# SPDX-License-Identifier: Apache-2.0
"""A single LSTM, GRU or plain RNN layer that reads a sequence in one direction, and single cells.

One matmul computes the terms that do not depend on the previous state for all steps, and a scan
computes the rest. The gradient reuses the saved gates, so its scan also needs only one matmul per
step.

In shapes, T is the number of steps, B the batch size, I the input size, H the state size, and P the
state size after projection. `gates` holds the arguments of a cell's activation functions. Its size
is 4 H for an LSTM (input, forget, cell, output), 4 H for a GRU (reset, update, and the input's and
the state's contributions to the new state), and H for a plain RNN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

_Maybe: TypeAlias = jax.Array | None
_Cell: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
_NOTHING = (0,)


@lowering("torch_google::recurrent_layer")
def recurrent_layer(
    x: jax.Array,
    hx: jax.Array,
    cx: _Maybe,
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: _Maybe,
    b_hh: _Maybe,
    w_hr: _Maybe,
    lengths: _Maybe,
    kind: str,
    reverse: bool,
) -> tuple[jax.Array, ...]:
    """Return the states (T, B, P), the final hidden and cell states, and data for the gradient.

    That data consists of the gates and the cell states of all steps. Cell states are empty if `cx`
    is None. `lengths` (B,) gives each sequence's length. A sequence that has ended keeps its state.
    """
    of_input = _biased(x @ w_ih.T, b_ih)
    wide = opmath(hx).dtype
    start = (opmath(hx), opmath(hx if cx is None else cx))

    def step(state: tuple[jax.Array, jax.Array], inputs: tuple[jax.Array, jax.Array]) -> object:
        h, c = state
        projected, time = inputs
        gates = _gates(kind, projected, _biased(h.astype(x.dtype) @ w_hh.T, b_hh))
        new_h, new_c = _CELLS[kind](gates, h, c)
        if w_hr is not None:
            new_h = opmath(new_h.astype(x.dtype) @ w_hr.T)
        if lengths is not None:
            live = (time < lengths)[:, None]
            new_h = jnp.where(live, new_h, h)
            new_c = jnp.where(live, new_c, c) if cx is not None else new_c
        # Round the state after each step, as if each step were a separate operator.
        new_h = new_h.astype(x.dtype).astype(wide)
        outputs = (new_h.astype(x.dtype), gates.astype(x.dtype), new_c.astype(x.dtype))
        return (new_h, new_c if cx is not None else new_h), outputs

    times = jnp.arange(x.shape[0])
    (h, c), (states, gates, cells) = jax.lax.scan(step, start, (of_input, times), reverse=reverse)
    if cx is None:
        c, cells = jnp.zeros(_NOTHING, x.dtype), jnp.zeros(_NOTHING, x.dtype)
    return states, h, c, gates, cells


@lowering("torch_google::recurrent_layer_backward")
def recurrent_layer_backward(
    grad: jax.Array,
    grad_hy: jax.Array,
    grad_cy: jax.Array,
    x: jax.Array,
    hx: jax.Array,
    cx: _Maybe,
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: _Maybe,
    w_hr: _Maybe,
    lengths: _Maybe,
    states: jax.Array,
    gates: jax.Array,
    cells: jax.Array,
    kind: str,
    reverse: bool,
) -> tuple[jax.Array, ...]:
    """Return the gradients of x, hx, cx, w_ih, w_hh, b_ih, b_hh and w_hr.

    The gradient of an argument that is None is empty.
    """
    before = _before(states, hx, reverse)
    cells_before = before if cx is None else _before(cells, cx, reverse)
    times = jnp.arange(x.shape[0])

    def step(carried: tuple[jax.Array, jax.Array], inputs: tuple[jax.Array, ...]) -> object:
        time, grad_h, gate, h, c = inputs
        dh, dc = carried[0] + opmath(grad_h), carried[1]
        d_state = dh if w_hr is None else opmath(dh.astype(x.dtype) @ w_hr)
        _, back = jax.vjp(_CELLS[kind], opmath(gate), opmath(h), opmath(c))
        d_gates, dh_direct, dc_before = back((d_state, dc))
        if lengths is not None:
            live = (time < lengths)[:, None]
            d_gates = jnp.where(live, d_gates, 0)
            dc_before = jnp.where(live, dc_before, dc)
        _, of_state = _split(kind, d_gates)
        dh_before = opmath(of_state.astype(x.dtype) @ w_hh)
        if w_hr is None:
            dh_before = dh_before + dh_direct
        if lengths is not None:
            dh_before = jnp.where(live, dh_before, dh)
        return (dh_before, dc_before), (d_gates, dh)

    start = (opmath(grad_hy), opmath(grad_cy) if cx is not None else jnp.zeros_like(opmath(hx)))
    (dh, dc), (d_gates, d_states) = jax.lax.scan(
        step,
        start,
        (times, grad, gates, before, cells_before),
        reverse=not reverse,
    )
    of_input, of_state = _split(kind, d_gates)
    nothing = jnp.zeros(_NOTHING, x.dtype)
    d_hr = nothing
    if w_hr is not None:
        raw = _CELLS[kind](opmath(gates), opmath(before), opmath(cells_before))[0]
        if lengths is not None:
            d_states = jnp.where((times[:, None] < lengths)[..., None], d_states, 0)
        d_hr = jnp.einsum("tbp,tbh->ph", d_states, raw)
    biased = b_ih is not None
    return (
        of_input.astype(x.dtype) @ w_ih,
        dh,
        dc if cx is not None else nothing,
        jnp.einsum("tbg,tbi->gi", of_input, opmath(x)),
        jnp.einsum("tbg,tbh->gh", of_state, opmath(before)),
        of_input.sum((0, 1)) if biased else nothing,
        of_state.sum((0, 1)) if biased else nothing,
        d_hr,
    )


@lowering("aten::_thnn_fused_lstm_cell")
def lstm_cell(
    of_input: jax.Array,
    of_state: jax.Array,
    cx: jax.Array,
    b_ih: _Maybe = None,
    b_hh: _Maybe = None,
) -> tuple[jax.Array, ...]:
    """Return the hidden state, the cell state, and the four gates after their activations."""
    _check_cell("lstm_cell", 4, of_input, of_state, cx)
    gates = _biased(opmath(of_input), b_ih) + _biased(opmath(of_state), b_hh)
    h, c = _lstm(gates, cx, opmath(cx))
    i, f, g, o = jnp.split(gates, 4, -1)
    done = (jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o))
    return h, c, jnp.concatenate(done, -1)


@lowering("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hy: _Maybe,
    grad_cy: _Maybe,
    cx: jax.Array,
    cy: jax.Array,
    workspace: jax.Array,
    has_bias: bool,
) -> tuple[_Maybe, ...]:
    i, f, g, o = jnp.split(opmath(workspace), 4, -1)
    tanh = jnp.tanh(opmath(cy))
    dh = jnp.zeros_like(tanh) if grad_hy is None else opmath(grad_hy)
    dc = dh * o * (1 - tanh * tanh)
    dc = dc if grad_cy is None else dc + opmath(grad_cy)
    grads = (
        dc * g * i * (1 - i),
        dc * opmath(cx) * f * (1 - f),
        dc * i * (1 - g * g),
        dh * tanh * o * (1 - o),
    )
    gates = jnp.concatenate(grads, -1)
    return gates, dc * f, gates.sum(0) if has_bias else None


@lowering("aten::_thnn_fused_gru_cell")
def gru_cell(
    of_input: jax.Array,
    of_state: jax.Array,
    hx: jax.Array,
    b_ih: _Maybe = None,
    b_hh: _Maybe = None,
) -> tuple[jax.Array, jax.Array]:
    """Return the state, and for the gradient: r, z, n, the old state and its contribution to n."""
    _check_cell("gru_cell", 3, of_input, of_state, hx)
    gates = _gates("gru", _biased(opmath(of_input), b_ih), _biased(opmath(of_state), b_hh))
    h, _ = _gru(gates, opmath(hx), opmath(hx))
    r, z, n_input, n_state = jnp.split(gates, 4, -1)
    r, z = jax.nn.sigmoid(r), jax.nn.sigmoid(z)
    n = jnp.tanh(n_input + r * n_state)
    return h, jnp.concatenate([r, z, n, opmath(hx), n_state], -1)


@lowering("aten::_thnn_fused_gru_cell_backward")
def gru_cell_backward(
    grad_hy: jax.Array, workspace: jax.Array, has_bias: bool
) -> tuple[_Maybe, ...]:
    r, z, n, hx, n_state = jnp.split(opmath(workspace), 5, -1)
    grad = opmath(grad_hy)
    dn = grad * (1 - z) * (1 - n * n)
    dr = dn * n_state * r * (1 - r)
    dz = grad * (hx - n) * z * (1 - z)
    of_input = jnp.concatenate([dr, dz, dn], -1)
    of_state = jnp.concatenate([dr, dz, dn * r], -1)
    biases = (of_input.sum(0), of_state.sum(0)) if has_bias else (None, None)
    return of_input, of_state, grad * z, *biases


def _check_cell(
    name: str, gates: int, of_input: jax.Array, of_state: jax.Array, state: jax.Array
) -> None:
    if not jnp.issubdtype(of_input.dtype, jnp.inexact):
        raise RuntimeError(f"{name}: expected floating-point numbers, found {of_input.dtype}")
    expected = (state.shape[0], gates * state.shape[-1]) if state.ndim == 2 else None
    if not of_input.shape == of_state.shape == expected:
        raise RuntimeError(
            f"{name}: the gates' shapes {of_input.shape} and {of_state.shape} do not fit a state of "
            f"shape {state.shape}"
        )


def _lstm(gates: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    i, f, g, o = jnp.split(gates, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru(gates: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    r, z, n_input, n_state = jnp.split(gates, 4, -1)
    n = jnp.tanh(n_input + jax.nn.sigmoid(r) * n_state)
    z = jax.nn.sigmoid(z)
    return n + z * (h - n), c


def _tanh(gates: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.tanh(gates), c


def _relu(gates: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.nn.relu(gates), c


_CELLS: dict[str, _Cell] = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}


def _gates(kind: str, of_input: jax.Array, of_state: jax.Array) -> jax.Array:
    of_input, of_state = opmath(of_input), opmath(of_state)
    if kind != "gru":
        return of_input + of_state
    size = 2 * (of_input.shape[-1] // 3)
    both = of_input[..., :size] + of_state[..., :size]
    return jnp.concatenate([both, of_input[..., size:], of_state[..., size:]], -1)


def _split(kind: str, grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of the input's and of the state's contributions to the gates."""
    if kind != "gru":
        return grad, grad
    both, n_input, n_state = jnp.split(grad, (grad.shape[-1] // 2, 3 * (grad.shape[-1] // 4)), -1)
    return jnp.concatenate([both, n_input], -1), jnp.concatenate([both, n_state], -1)


def _before(states: jax.Array, start: jax.Array, reverse: bool) -> jax.Array:
    """Return the state at the start of each step."""
    first = start[None].astype(states.dtype)
    parts = [states[1:], first] if reverse else [first, states[:-1]]
    return jnp.concatenate(parts, 0)


def _biased(x: jax.Array, bias: _Maybe) -> jax.Array:
    return x if bias is None else x + bias
