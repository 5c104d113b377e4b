# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification: the loss and its gradient, in log space.

S targets yield 2 S + 1 states: the targets, with blanks around and between them. alpha[t, s] is the
log-probability of all partial paths that end in state s at time t, and beta[t, s] is that of all
partial paths that start in state s at time t. Both include the emission at time t.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

_Pair = tuple[jax.Array, jax.Array]


@lowering("aten::_ctc_loss")
def ctc_loss(
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> _Pair:
    """Return losses (N,) and alpha (N, T, 2 * longest target + 1), for log_probs (T, N, C)."""
    log_probs = opmath(log_probs)
    states = _states(targets, target_lengths, blank)
    emitted, skips = _emitted(log_probs, states), _skips(states, blank)
    inputs, lengths = jnp.asarray(input_lengths), jnp.asarray(target_lengths)
    batch, count = states.shape
    times = log_probs.shape[0]
    first = jnp.arange(count) < jnp.where(lengths > 0, 2, 1)[:, None]

    def step(alpha: jax.Array, step_inputs: _Pair) -> _Pair:
        emission, time = step_inputs
        moved = _log_sum(alpha, _shift(alpha, 1), jnp.where(skips, _shift(alpha, 2), -jnp.inf))
        new = jnp.where(time == 0, jnp.where(first, 0.0, -jnp.inf), moved) + emission
        # After the end of an input, alpha is -inf, as in torch.
        new = jnp.where((time < inputs)[:, None] & _used(lengths, count), new, -jnp.inf)
        return new, new

    start = jnp.full((batch, count), -jnp.inf, log_probs.dtype)
    alphas = jax.lax.scan(step, start, (emitted, jnp.arange(times)))[1].swapaxes(0, 1)
    last = jnp.take_along_axis(alphas, jnp.maximum(inputs - 1, 0)[:, None, None], axis=1)[:, 0]
    end = jnp.take_along_axis(last, (2 * lengths)[:, None], axis=1)[:, 0]
    before = jnp.take_along_axis(last, jnp.maximum(2 * lengths - 1, 0)[:, None], axis=1)[:, 0]
    likelihood = _log_sum(end, jnp.where(lengths > 0, before, -jnp.inf))
    # An empty target has probability 1 if the input is also empty.
    empty = jnp.where(lengths == 0, 0.0, -jnp.inf)
    return -jnp.where(inputs == 0, empty, likelihood), alphas


@lowering("aten::_ctc_loss.Tensor", host_shape=True)
def ctc_loss_of_lengths(
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: jax.Array,
    target_lengths: jax.Array,
    blank: int = 0,
    zero_infinity: bool = False,
) -> _Pair:
    lengths = _listed(input_lengths), _listed(target_lengths)
    return ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)


@lowering("aten::_ctc_loss_backward")
def ctc_loss_backward(
    grad: jax.Array,
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    loss: jax.Array,
    alphas: jax.Array,
    blank: int,
    zero_infinity: bool = False,
) -> jax.Array:
    log_probs, grad, loss = opmath(log_probs), opmath(grad), opmath(loss)
    states = _states(targets, target_lengths, blank)
    emitted, skips = _emitted(log_probs, states), _skips(states, blank)
    inputs, lengths = jnp.asarray(input_lengths), jnp.asarray(target_lengths)
    count = states.shape[1]
    positions = jnp.arange(count)
    last = (positions <= 2 * lengths[:, None]) & (positions >= 2 * lengths[:, None] - 1)
    skips_on = jnp.pad(skips[:, 2:], ((0, 0), (0, min(2, count))))[:, :count]

    def step(beta: jax.Array, step_inputs: _Pair) -> _Pair:
        emission, time = step_inputs
        skipped = jnp.where(skips_on, _shift(beta, -2), -jnp.inf)
        moved = _log_sum(beta, _shift(beta, -1), skipped)
        ends = (time == inputs - 1)[:, None]
        new = jnp.where(ends, jnp.where(last, 0.0, -jnp.inf), moved) + emission
        new = jnp.where((time < inputs)[:, None] & _used(lengths, count), new, -jnp.inf)
        return new, new

    times, batch, classes = log_probs.shape
    start = jnp.full((batch, count), -jnp.inf, log_probs.dtype)
    betas = jax.lax.scan(step, start, (emitted, jnp.arange(times)), reverse=True)[1]
    # torch's own alpha has arbitrary values outside the valid paths, so ignore it there.
    both = jnp.where(betas == -jnp.inf, -jnp.inf, opmath(alphas).swapaxes(0, 1) + betas)

    def add(of_class: jax.Array, step_inputs: _Pair) -> tuple[jax.Array, None]:
        state, of_state = step_inputs
        here = state[:, None] == jnp.arange(classes)
        return _log_sum(of_class, jnp.where(here, of_state[..., None], -jnp.inf)), None

    # Several states may have the same class, so add their probabilities. Use a loop, because there
    # may be thousands of states.
    nothing = jnp.full((times, batch, classes), -jnp.inf, log_probs.dtype)
    of_class = jax.lax.scan(add, nothing, (states.T, jnp.moveaxis(both, 2, 0)))[0]
    posterior = jnp.exp(of_class + loss[:, None] - log_probs)
    out = (jnp.exp(log_probs) - posterior) * grad[:, None]
    live = (jnp.arange(times)[:, None] < inputs)[..., None]
    if zero_infinity:
        live = live & (loss != jnp.inf)[:, None]
    return jnp.where(live, out, 0)


@lowering("aten::_ctc_loss_backward.Tensor", host_shape=True)
def ctc_loss_backward_of_lengths(
    grad: jax.Array,
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: jax.Array,
    target_lengths: jax.Array,
    loss: jax.Array,
    alphas: jax.Array,
    blank: int,
    zero_infinity: bool = False,
) -> jax.Array:
    lengths = _listed(input_lengths), _listed(target_lengths)
    return ctc_loss_backward(grad, log_probs, targets, *lengths, loss, alphas, blank, zero_infinity)


def _listed(lengths: jax.Array) -> list[int]:
    return [int(n) for n in np.asarray(lengths)]


def _states(targets: jax.Array, lengths: Sequence[int], blank: int) -> jax.Array:
    """Return each state's class (N, 2 * longest + 1), from padded or concatenated targets."""
    longest = max(lengths, default=0)
    starts = np.cumsum([0, *lengths])[:-1]
    if targets.ndim > 1:
        width = targets.shape[1]
        starts = np.arange(len(lengths)) * width
    index = starts[:, None] + np.arange(longest)
    index = np.where(np.arange(longest) < np.asarray(lengths)[:, None], index, 0)
    flat = targets.reshape(targets.size)
    chosen = flat[index] if targets.size else jnp.zeros(index.shape, targets.dtype)
    states = jnp.full((len(lengths), 2 * longest + 1), blank, targets.dtype)
    return states.at[:, 1::2].set(chosen)


def _emitted(log_probs: jax.Array, states: jax.Array) -> jax.Array:
    """Return the log-probability of each state's class at each time, as (T, N, states)."""
    index = jnp.broadcast_to(states, (log_probs.shape[0], *states.shape))
    return jnp.take_along_axis(log_probs, index, axis=2)


def _skips(states: jax.Array, blank: int) -> jax.Array:
    """Return whether a state may follow the state two before it, skipping a blank."""
    before = jnp.pad(states[:, :-2], ((0, 0), (2, 0)), constant_values=blank)
    before = before[:, : states.shape[1]]
    return (jnp.arange(states.shape[1]) % 2 == 1) & (states != before)


def _used(lengths: jax.Array, count: int) -> jax.Array:
    return jnp.arange(count) < (2 * lengths + 1)[:, None]


def _shift(x: jax.Array, by: int) -> jax.Array:
    rolled = jnp.roll(x, by, axis=1)
    positions = jnp.arange(x.shape[1])
    outside = positions < by if by > 0 else positions >= x.shape[1] + by
    return jnp.where(outside, -jnp.inf, rolled)


def _log_sum(*terms: jax.Array) -> jax.Array:
    top = terms[0]
    for term in terms[1:]:
        top = jnp.maximum(top, term)
    safe = jnp.where(top == -jnp.inf, 0.0, top)
    total = sum(jnp.exp(term - safe) for term in terms)
    return jnp.log(total) + safe
