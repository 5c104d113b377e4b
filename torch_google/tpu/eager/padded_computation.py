# SPDX-License-Identifier: Apache-2.0
"""Computes an operator on padded arrays: reads tensors, applies a rule, and stores results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import sympy
import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes
from torch_google.tpu.buckets import PaddedArray, PaddingRefusal, SizeScope, apply_rule
from torch_google.tpu.buckets.padded_array import redim
from torch_google.tpu.buckets.rules import RuleCall, plain
from torch_google.tpu.eager.compiled_op import as_dtype
from torch_google.tpu.eager.normalized_call import Base
from torch_google.tpu.eager.padded_views import Layout, packed, read_padded, write_padded
from torch_google.tpu.program import constant
from torch_google.tpu.runtime.strides import View, read, write


@dataclass(frozen=True)
class PaddedTensor:
    """How a program reads a tensor.

    A tensor with a `view` has the same view of its storage in all calls. Any other has a `layout`,
    the expressions of its sizes, and the positions of its places among the program's numbers.
    """

    view: View | None
    layout: Layout | None = None
    sizes: tuple[sympy.Expr, ...] = ()
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class PaddedResult:
    """A new tensor. Its array has `elements` elements if its sizes change; else this is None."""

    sizes: tuple[sympy.Expr, ...]
    order: tuple[int, ...]
    elements: int | None


@dataclass(frozen=True)
class Source:
    """An argument that is an input: an index into `tensors`, `numbers` or `constants`."""

    kind: str
    index: int


@dataclass(frozen=True)
class Computation:
    """The computation of a padded program. It holds no tensor of the traced call.

    `names` maps the symbols in `arguments` and `tensors` to those in `scope`, `metas` and
    `results`. The program's first `leading` arguments are the symbols' values and the places of all
    tensors.
    """

    op: OpOverload
    arguments: tuple[list[Any], dict[str, Any]]
    metas: tuple[Any, ...]
    scope: SizeScope
    names: Mapping[Any, Any]
    tensors: Sequence[PaddedTensor]
    views: Sequence[View]
    bases: Sequence[Base]
    read_as: torch.dtype | None
    constants: Sequence[torch.Tensor]
    number_dtypes: Sequence[Any]
    inputs: Sequence[int]
    targets: Sequence[int]
    written: Sequence[int]
    plain: int
    is_random: bool
    results: Sequence[PaddedResult]
    leading: int

    def run(self, values: Sequence[Any]) -> tuple[jax.Array, ...]:
        """Return the new arrays of the written storages, and then those of the new tensors."""
        leading, rest = values[: self.leading], values[self.leading :]
        arrays = dict(zip(self.inputs, rest, strict=False))
        numbers = rest[len(self.inputs) :]
        scope = self.scope.within(dict(zip(self.names.values(), leading, strict=False)))
        key = None
        if self.is_random:
            key = jax.random.fold_in(jax.random.key(values[-2]), values[-1])

        def dims(tensor: PaddedTensor) -> list[Any]:
            return list(scope.dims(size.xreplace(self.names) for size in tensor.sizes))

        def places(tensor: PaddedTensor) -> list[Any]:
            return [leading[position] for position in tensor.places]

        def of_tensor(index: int) -> PaddedArray:
            tensor, view = self.tensors[index], self.views[index]
            if index not in arrays:
                sizes = plain(view.sizes) if tensor.layout is None else dims(tensor)
                shape = [math.prod(extent.size for extent in dim) for dim in sizes]
                return PaddedArray(jnp.zeros(shape, dtypes.to_jax(view.dtype)), tuple(sizes), True)
            if tensor.layout is None:
                assert tensor.view is not None
                x = PaddedArray(read(arrays[index], tensor.view), plain(view.sizes))
            else:
                flat = arrays[index].reshape(-1)
                x = read_padded(scope, flat, dims(tensor), tensor.layout, places(tensor))
            if self.read_as is not None:
                x = PaddedArray(x.array.astype(dtypes.to_jax(self.read_as)), x.dims)
            return x

        def argument(leaf: Any) -> Any:
            if isinstance(leaf, sympy.Expr):
                return scope.value(leaf.xreplace(self.names))
            if not isinstance(leaf, Source):
                return leaf
            if leaf.kind == "tensor":
                return of_tensor(leaf.index)
            if leaf.kind == "constant":
                return PaddedArray(constant(self.constants[leaf.index]), ())
            dtype = self.number_dtypes[leaf.index]
            given = numbers[leaf.index]
            return given if dtype is None else PaddedArray(jnp.asarray(given).astype(dtype), ())

        args, kwargs = pytree.tree_map(argument, self.arguments)
        results = apply_rule(RuleCall(self.op, tuple(args), kwargs, self.metas, scope, key))
        new = dict(arrays)
        for index, value in zip(self.written, results[self.plain :], strict=True):
            if value is None:
                raise PaddingRefusal("a written value that is not computed")
            tensor, view = self.tensors[index], self.views[index]
            array = as_dtype(value.array, view.dtype)
            shape, dtype, *_ = self.bases[index]
            base = new.get(index)
            if base is None:
                base = jnp.zeros(shape, dtypes.to_jax(dtype))
            if tensor.layout is None:
                assert tensor.view is not None
                new[index] = write(base, array, tensor.view)
            else:
                own = PaddedArray(array, value.dims)
                flat = write_padded(
                    scope, base.reshape(-1), own, dims(tensor), tensor.layout, places(tensor)
                )
                new[index] = flat.reshape(shape)
        made = [
            x
            for x, meta in zip(results[: self.plain], self.metas, strict=False)
            if meta is not None
        ]
        fresh = []
        for x, result in zip(made, self.results, strict=True):
            if x is None:
                raise PaddingRefusal("a result that is not computed")
            if result.elements is None:
                array = redim(scope, x, scope.dims(result.sizes)).array
                fresh.append(array.transpose(result.order))
            else:
                fresh.append(packed(scope, x, result.order, result.elements))
        return (*(new[index] for index in self.targets), *fresh)
