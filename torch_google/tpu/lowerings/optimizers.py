# SPDX-License-Identifier: Apache-2.0
"""Fused optimizer steps on lists of parameters, and two operators for the gradient scaler.

The lowerings implement the functional variants, which return new lists. If `found_inf` is set, the
new values equal the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

_List = Sequence[jax.Array]
_Lists = tuple[list[jax.Array], ...]


@lowering("aten::_fused_adam", "aten::_fused_adam.tensor_lr")
def fused_adam(*args: Any, **kwargs: Any) -> _Lists:
    return _adam(*args, decoupled=False, **kwargs)


@lowering("aten::_fused_adamw", "aten::_fused_adamw.tensor_lr")
def fused_adamw(*args: Any, **kwargs: Any) -> _Lists:
    return _adam(*args, decoupled=True, **kwargs)


@lowering("aten::_fused_sgd", "aten::_fused_sgd.tensor_lr")
def fused_sgd(
    params: _List,
    grads: _List,
    buffers: _List,
    *,
    weight_decay: Any,
    momentum: Any,
    lr: Any,
    dampening: Any,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: jax.Array | None = None,
    found_inf: jax.Array | None = None,
) -> _Lists:
    new: _Lists = ([], [], [])
    for i, (param, given_grad) in enumerate(zip(params, grads, strict=True)):
        unscaled = _unscaled(given_grad, grad_scale)
        p = opmath(param)
        grad = (-unscaled if maximize else unscaled) + p * _as(weight_decay, p)
        results = [p, unscaled]
        if buffers:
            m = _as(momentum, p)
            buffer = grad
            if not is_first_step:
                buffer = m * opmath(buffers[i]) + (1 - _as(dampening, p)) * grad
            grad = grad + m * buffer if nesterov else buffer
            results.append(buffer)
        results[0] = p - _as(lr, p) * grad
        _append(new, results, [param, given_grad, *buffers[i : i + 1]], found_inf)
    return new


@lowering("aten::_fused_adagrad.tensor_lr")
def fused_adagrad_of_a_tensor(*args: Any, **kwargs: Any) -> _Lists:
    return fused_adagrad(*args, **kwargs)[:3]  # this overload does not return the steps


@lowering("aten::_fused_adagrad")
def fused_adagrad(
    params: _List,
    grads: _List,
    state_sums: _List,
    state_steps: _List,
    *,
    lr: Any,
    lr_decay: Any,
    weight_decay: Any,
    eps: Any,
    maximize: bool,
    grad_scale: jax.Array | None = None,
    found_inf: jax.Array | None = None,
) -> _Lists:
    new: _Lists = ([], [], [], [])
    for param, given_grad, given_sum, step in zip(
        params, grads, state_sums, state_steps, strict=True
    ):
        unscaled = _unscaled(given_grad, grad_scale)
        p = opmath(param)
        grad = (-unscaled if maximize else unscaled) + p * _as(weight_decay, p)
        rate = _as(lr, p) / (1 + (_as(step, p) - 1) * _as(lr_decay, p))
        total = opmath(given_sum) + grad * grad
        p = p - rate * grad / (jnp.sqrt(total) + _as(eps, p))
        _append(new, [p, unscaled, total, step], [param, given_grad, given_sum, step], found_inf)
    return new


@lowering("aten::_amp_foreach_non_finite_check_and_unscale")
def unscale(
    grads: _List, found_inf: jax.Array, inv_scale: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """Return the unscaled gradients and `found_inf`, which becomes 1 if any is infinite or NaN."""
    bad = [~jnp.isfinite(grad).all() for grad in grads]
    found_any = jnp.where(jnp.stack(bad).any(), 1, found_inf) if bad else found_inf
    return [opmath(grad) * inv_scale.reshape(()) for grad in grads], found_any.reshape(
        found_inf.shape
    )


@lowering("aten::_amp_update_scale")
def update_scale(
    scale: jax.Array,
    growth_tracker: jax.Array,
    found_inf: jax.Array,
    scale_growth_factor: Any,
    scale_backoff_factor: Any,
    growth_interval: Any,
) -> tuple[jax.Array, jax.Array]:
    failed = found_inf.reshape(scale.shape) != 0
    successes = growth_tracker + 1
    grown = scale * _as(scale_growth_factor, scale)
    due = successes == growth_interval
    bigger = jnp.where(due & jnp.isfinite(grown), grown, scale)
    new = jnp.where(failed, scale * _as(scale_backoff_factor, scale), bigger)
    return new, jnp.where(failed | due, 0, successes)


def _adam(
    params: _List,
    grads: _List,
    exp_avgs: _List,
    exp_avg_sqs: _List,
    max_exp_avg_sqs: _List,
    state_steps: _List,
    *,
    lr: Any,
    beta1: Any,
    beta2: Any,
    weight_decay: Any,
    eps: Any,
    amsgrad: bool,
    maximize: bool,
    grad_scale: jax.Array | None = None,
    found_inf: jax.Array | None = None,
    decoupled: bool,
) -> _Lists:
    new: _Lists = ([], [], [], [], [])
    for i, step in enumerate(state_steps):
        unscaled = _unscaled(grads[i], grad_scale)
        p, mean, square = opmath(params[i]), opmath(exp_avgs[i]), opmath(exp_avg_sqs[i])
        rate, decay, b2 = (_as(v, p) for v in (lr, weight_decay, beta2))
        grad = -unscaled if maximize else unscaled
        if decoupled:
            p = p * (1 - rate * decay)
        else:
            grad = grad + p * decay
        # Subtract from 1 before converting to float32, in which 1 - 0.999 has an error of 4e-5.
        mean = mean + (grad - mean) * _as(1 - beta1, p)
        square = square * b2 + grad * grad * _as(1 - beta2, p)
        correction1, correction2 = _correction(beta1, step, p), _correction(beta2, step, p)
        largest = jnp.maximum(opmath(max_exp_avg_sqs[i]), square) if amsgrad else square
        denominator = jnp.sqrt(largest) / jnp.sqrt(correction2) + _as(eps, p)
        p = p - rate / correction1 * mean / denominator
        results = [p, unscaled, mean, square]
        inputs = [params[i], grads[i], exp_avgs[i], exp_avg_sqs[i]]
        if max_exp_avg_sqs:
            results.append(largest if amsgrad else max_exp_avg_sqs[i])
            inputs.append(max_exp_avg_sqs[i])
        _append(new, results, inputs, found_inf)
    return new


def _append(
    lists: _Lists, results: Sequence[jax.Array], inputs: _List, found_inf: jax.Array | None
) -> None:
    for into, result, old in zip(lists, results, inputs, strict=False):
        if found_inf is not None:
            result = jnp.where(found_inf.reshape(()) == 1, old.astype(result.dtype), result)
        into.append(result)


def _as(number: Any, like: jax.Array) -> jax.Array:
    """Convert a Python scalar, traced scalar or one-element tensor to the computation dtype."""
    return jnp.asarray(number).astype(like.dtype).reshape(())


def _correction(beta: Any, step: jax.Array, like: jax.Array) -> jax.Array:
    """Return 1 - beta ** step."""
    return -jnp.expm1(_as(step, like) * _as(jnp.log(beta), like))


def _unscaled(grad: jax.Array, grad_scale: jax.Array | None) -> jax.Array:
    grad = opmath(grad)
    return grad if grad_scale is None else grad / _as(grad_scale, grad)
