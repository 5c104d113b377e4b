# SPDX-License-Identifier: Apache-2.0
"""`custom_kernel`: registers a JAX function as a torch operator."""

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
    name: str, *, differentiable: bool = False, x64: bool | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Register a JAX function, with or without Pallas, as the operator `name` (`library::name`).

    The function must be annotated: `jax.Array` for a tensor, `list[jax.Array]` for several, or
    either with `| None`. Arguments of type int, float, bool, str and lists of numbers are constants
    in the program, so a new value recompiles it. The function returns a jax.Array, a tuple with a
    fixed number of them, or a list. It must be pure: to change a tensor, return its new value and
    `copy_` that into the tensor.

    Returns torch's CustomOpDef. Call it, or `torch.ops.library.name`. Its `register_autograd` sets
    the operator's gradient. With `differentiable`, JAX derives the gradient, and the backward pass
    recomputes the function. The operator works in every eager mode, under torch.compile (as part of
    the program), under torch.vmap, and on CPU tensors. On a CPU, Pallas kernels are interpreted.

    `x64` specifies whether JAX traces the function and its gradient with jax_enable_x64. By
    default, 64-bit types are enabled if an argument or a result has a 64-bit dtype. Otherwise, they
    are disabled if the function calls Pallas or cannot be traced with them, and enabled for all
    other functions. If they are disabled, JAX's default dtypes have 32 bits, but a dtype that the
    function names explicitly is kept. With `x64=False`, 64-bit arguments raise TypeError.

    Raises ValueError if the name is taken, and TypeError if the function cannot be an operator. The
    TypeError's message names the function, the argument and the invalid value.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"custom_kernel: the name {name!r} is not of the form 'library::name'")

    def decorate(function: Callable[..., Any]) -> Any:
        title = f"custom_kernel {name} ({_place(function)})"
        kernel = Kernel(name, title, function, signature_of(function, title), x64)
        operator = kernel.define()
        if differentiable:
            differentiate(kernel, operator)
        operator.register_vmap(BatchingRule(kernel, operator, differentiable))
        return operator

    return decorate


def _place(function: Callable[..., Any]) -> str:
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    where = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
    return f"{getattr(inner, '__name__', type(inner).__name__)}{where}"
