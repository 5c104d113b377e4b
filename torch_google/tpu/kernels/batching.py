# SPDX-License-Identifier: Apache-2.0
"""Runs kernels under torch.vmap, through operators that apply jax.vmap to a kernel's function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import torch

from torch_google.tpu.kernels.gradient import differentiate
from torch_google.tpu.kernels.kernel import Kernel
from torch_google.tpu.kernels.kernel_signature import KernelSignature, Parameter


class BatchingRule:
    """The torch.vmap rule for a kernel's operator.

    A gradient that the user has registered belongs to the kernel's own operator. If that gradient
    is needed, the rule calls the operator once per batch element. Otherwise, it calls a batched
    operator, created on first use, that computes the whole batch in one call.
    """

    def __init__(self, kernel: Kernel, operator: Any, differentiable: bool) -> None:
        self._kernel = kernel
        self._operator = operator
        self._differentiable = differentiable
        self._gradient_of_ours = operator._backward_fn
        self._made: Any = None

    def __call__(self, info: Any, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        signature = self._kernel.signature
        values = signature.values(args, kwargs)
        dims = list(_dims(signature, values, in_dims))
        if info.batch_size and self._wants_gradient_of_user(signature.tensors(values)):
            results = self._row_by_row(int(info.batch_size), values, dims)
        else:
            self._made = self._made or self._define()
            results = self._made(*values, [-1 if dim is None else int(dim) for dim in dims])
        return results, jax.tree.map(lambda _: 0, results, is_leaf=_is_tensor)

    def _wants_gradient_of_user(self, tensors: Sequence[torch.Tensor]) -> bool:
        of_user = self._operator._backward_fn is not self._gradient_of_ours
        return of_user and torch.is_grad_enabled() and any(map(_requires_grad, tensors))

    def _row_by_row(self, count: int, values: Sequence[Any], dims: Sequence[Any]) -> Any:
        signature = self._kernel.signature
        columns = [
            [tensor] * count if dim is None else tensor.unbind(dim)
            for tensor, dim in zip(signature.tensors(values), dims, strict=True)
        ]
        results = []
        for row in zip(*columns, strict=True):
            args, kwargs = signature.call(signature.with_tensors(values, row))
            results.append(self._operator(*args, **kwargs))
        return jax.tree.map(lambda *rows: torch.stack(rows), *results)

    def _define(self) -> Any:
        signature = self._kernel.signature
        plain = tuple(replace(p, keyword_only=False, default=_EMPTY) for p in signature.parameters)
        dims = Parameter(f"in_dims_{len(plain)}", list[int])
        batched = KernelSignature((*plain, dims), signature.returns)

        def function(*args: Any) -> Any:
            *values, in_dims = args
            axes = [None if dim < 0 else dim for dim in in_dims]

            def one(tensors: Sequence[jax.Array]) -> Any:
                return self._kernel.results(signature.with_tensors(values, tensors))

            return jax.vmap(one, in_axes=(axes,))(signature.tensors(values))

        title = f"{self._kernel.title}, under vmap"
        kernel = Kernel(f"{self._kernel.name}_vmap", title, function, batched, self._kernel.x64)
        operator = kernel.define()
        if self._differentiable:
            differentiate(kernel, operator)
        operator.register_vmap(BatchingRule(kernel, operator, self._differentiable))
        return operator


_EMPTY = Parameter("", None).default


def _dims(
    signature: KernelSignature, values: Sequence[Any], in_dims: Sequence[Any]
) -> Iterator[Any]:
    """Yield the dimension of each tensor that vmap maps over, or None if it is not mapped."""
    padded = [*in_dims, *[None] * (len(values) - len(in_dims))]
    for parameter, value, dim in zip(signature.parameters, values, padded, strict=True):
        if parameter.is_tensors:
            each = dim if isinstance(dim, list | tuple) else [dim] * len(value)
            yield from (d for d, item in zip(each, value, strict=True) if item is not None)
        elif parameter.is_tensor and value is not None:
            yield dim


def _requires_grad(tensor: torch.Tensor) -> bool:
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # unwrap outer vmaps
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.requires_grad


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)
