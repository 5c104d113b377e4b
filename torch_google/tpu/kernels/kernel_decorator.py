# SPDX-License-Identifier: Apache-2.0
"""`custom_kernel`: a function of JAX as an operator of torch."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from torch_google.tpu.kernels.batching import BatchingRule
from torch_google.tpu.kernels.gradient import differentiate
from torch_google.tpu.kernels.kernel import Kernel
from torch_google.tpu.kernels.kernel_signature import signature_of

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")


def custom_kernel(
    name: str, *, differentiable: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of JAX, with or without Pallas, the operator `name` (`library::name`).

    The function is annotated: `jax.Array` where the operator takes a tensor, `list[jax.Array]` for
    several, either of them or None, and int, float, bool, str or lists of numbers, which are
    constants of a program: another value compiles again. It returns a jax.Array, a tuple of them
    with the number of them in the annotation, or a list. It is pure: to change a tensor, return its
    new value and `copy_` that.

    What comes back is torch's CustomOpDef: call it, or `torch.ops.library.name`; `register_autograd`
    gives it a gradient of its own. `differentiable` lets JAX find the gradient, which computes the
    function again. The operator runs eagerly in every mode, under torch.compile, where it becomes a
    part of the program, under torch.vmap, and on tensors of the CPU. Kernels of Pallas are
    interpreted where the platform is a CPU.

    Raises ValueError for a name that is taken, and TypeError for a function that cannot be an
    operator: the message has the function, the argument and what was found.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"custom_kernel: the name {name!r} is not of the form 'library::name'")

    def decorate(function: Callable[..., Any]) -> Any:
        title = f"custom_kernel {name} ({_place(function)})"
        kernel = Kernel(name, title, function, signature_of(function, title))
        made = kernel.define()
        if differentiable:
            differentiate(kernel, made)
        made.register_vmap(BatchingRule(kernel, made, differentiable))
        return made

    return decorate


def _place(function: Callable[..., Any]) -> str:
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    where = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
    return f"{getattr(inner, '__name__', type(inner).__name__)}{where}"
