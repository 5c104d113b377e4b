# SPDX-License-Identifier: Apache-2.0
"""A kernel under torch.vmap: jax.vmap of its function, as an operator of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import torch

from torch_google.tpu.kernels.gradient import differentiate
from torch_google.tpu.kernels.kernel import Kernel
from torch_google.tpu.kernels.signature import Parameter, Signature


class Batched:
    """The rule of torch.vmap for a kernel. Its operator is made when it is first needed."""

    def __init__(self, kernel: Kernel, differentiable: bool) -> None:
        self._kernel = kernel
        self._differentiable = differentiable
        self._made: Any = None

    def __call__(self, info: Any, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if self._made is None:
            self._made = self._define()
        signature = self._kernel.signature
        values = signature.values(args, kwargs)
        dims = list(_dims(signature, values, in_dims))
        results = self._made(*values, [-1 if dim is None else int(dim) for dim in dims])
        return results, jax.tree.map(lambda _: 0, results, is_leaf=_is_tensor)

    def _define(self) -> Any:
        signature = self._kernel.signature
        plain = tuple(replace(p, keyword_only=False, default=_EMPTY) for p in signature.parameters)
        dims = Parameter(f"in_dims_{len(plain)}", list[int])
        batched = Signature((*plain, dims), signature.returns)

        def function(*given: Any) -> Any:
            *values, in_dims = given
            axes = [None if dim < 0 else dim for dim in in_dims]

            def one(tensors: Sequence[jax.Array]) -> Any:
                return self._kernel.arrays(*signature.with_tensors(values, tensors))

            return jax.vmap(one, in_axes=(axes,))(signature.tensors(values))

        title = f"{self._kernel.title}, under vmap"
        kernel = Kernel(f"{self._kernel.name}_vmap", title, function, batched)
        made = kernel.define()
        if self._differentiable:
            differentiate(kernel, made)
        made.register_vmap(Batched(kernel, self._differentiable))
        return made


_EMPTY = Parameter("", None).default


def _dims(signature: Signature, values: Sequence[Any], in_dims: Sequence[Any]) -> Iterator[Any]:
    """Return the dimension of each tensor that vmap maps over, or None."""
    padded = [*in_dims, *[None] * (len(values) - len(in_dims))]
    for parameter, value, dim in zip(signature.parameters, values, padded, strict=True):
        if parameter.is_tensors:
            each = dim if isinstance(dim, list | tuple) else [dim] * len(value)
            yield from (d for d, item in zip(each, value, strict=True) if item is not None)
        elif parameter.is_tensor and value is not None:
            yield dim


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)
