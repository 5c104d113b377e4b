# SPDX-License-Identifier: Apache-2.0
"""Derives a kernel's gradient with jax.vjp, as another operator that is also differentiable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch

from torch_google.tpu.kernels.kernel import Kernel
from torch_google.tpu.kernels.kernel_signature import OPTIONAL_TENSORS, KernelSignature, Parameter

# The highest supported order of gradients. All orders are defined in advance, because an operator
# must exist before a graph that uses it is loaded.
_ORDER = 2


def differentiate(kernel: Kernel, operator: Any, order: int = _ORDER) -> None:
    """Register gradients for a kernel's operator, up to the given order."""
    pullback = _pullback(kernel)
    pullback_op = pullback.define()
    if order > 1:
        differentiate(pullback, pullback_op, order - 1)
    signature = kernel.signature

    def setup(
        ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: Any = None
    ) -> None:
        values = signature.values(inputs, keyword_only_inputs or {})
        tensors = signature.tensors(values)
        ctx.save_for_backward(*tensors)
        ctx.values = signature.with_tensors(values, [_HERE] * len(tensors))

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        values = signature.with_tensors(ctx.values, saved)
        needs = list(zip(signature.parameters, ctx.values, ctx.needs_input_grad, strict=False))
        needed = [bool(flag) for flag in _flags(needs)]
        needed = [
            flag and _has_gradient(tensor) for flag, tensor in zip(needed, saved, strict=True)
        ]
        flat = [g for grad in grads for g in (grad if isinstance(grad, list | tuple) else [grad])]
        gradients = iter(pullback_op(*values, flat, needed) if any(needed) else ())
        each = iter([next(gradients) if flag else None for flag in needed])
        return tuple(_gradient(p, value, each) for p, value, _ in needs)

    operator.register_autograd(backward, setup_context=setup)


# A placeholder for a tensor that is saved with save_for_backward.
_HERE = object()


def _pullback(kernel: Kernel) -> Kernel:
    """Return the kernel that computes input gradients from inputs and output gradients."""
    signature = kernel.signature
    parameters = tuple(
        Parameter(p.name, p.annotation, as_tuple=p.as_tuple) for p in signature.parameters
    )
    count = len(parameters)  # makes names unique, because this kernel may itself be a gradient
    grads = Parameter(f"result_grads_{count}", OPTIONAL_TENSORS)
    needed = Parameter(f"wanted_{count}", list[bool])
    several = KernelSignature((*parameters, grads, needed), list[torch.Tensor])

    def pullback(*args: Any) -> list[jax.Array]:
        *values, result_grads, flags = args
        tensors = signature.tensors(values)
        chosen = [i for i, flag in enumerate(flags) if flag]

        def forward(*inputs: jax.Array) -> list[jax.Array]:
            filled = list(tensors)
            for i, value in zip(chosen, inputs, strict=True):
                filled[i] = value
            results = jax.tree.leaves(kernel.results(signature.with_tensors(values, filled)))
            return [
                result
                for result, grad in zip(results, result_grads, strict=True)
                if grad is not None and jnp.issubdtype(result.dtype, jnp.inexact)
            ]

        results, pull = jax.vjp(forward, *(tensors[i] for i in chosen))
        present = [
            g for g in result_grads if g is not None and jnp.issubdtype(g.dtype, jnp.inexact)
        ]
        # For complex tensors, torch's gradient is the conjugate of JAX's.
        cotangents = [
            jnp.conj(g).astype(result.dtype) for g, result in zip(present, results, strict=True)
        ]
        return [jnp.conj(grad) for grad in pull(cotangents)]

    title = f"{kernel.title}, its gradient"
    return Kernel(f"{kernel.name}_vjp", title, pullback, several, kernel.x64, kernel)


def _flags(needs: Sequence[tuple[Parameter, Any, Any]]) -> Iterator[Any]:
    for parameter, value, flag in needs:
        if parameter.is_tensors:
            flags = flag if isinstance(flag, list | tuple) else [flag] * len(value)
            yield from (f for f, item in zip(flags, value, strict=True) if item is not None)
        elif parameter.is_tensor and value is not None:
            yield flag


def _gradient(parameter: Parameter, value: Any, each: Iterator[Any]) -> Any:
    if parameter.is_tensors:
        gradients = [None if item is None else next(each) for item in value]
        # Autograd ignores all tensors in a list that contains None, so it accepts no gradients for
        # them.
        return None if any(item is None for item in value) else gradients
    return next(each) if parameter.is_tensor and value is not None else None


def _has_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
