# SPDX-License-Identifier: Apache-2.0
"""The table of rules. A rule computes the results of an operator from padded arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import sympy
import torch
from torch._ops import OpOverload

from torch_google.tpu import dtypes
from torch_google.tpu.buckets.padded_array import PaddedArray
from torch_google.tpu.buckets.sizes import Dim, Extent, PaddingRefusal, SizeScope
from torch_google.tpu.program import Number, lower_op
from torch_google.tpu.program.interpreter import run
from torch_google.tpu.program.lowering_lookup import lowering_of

Arrays: TypeAlias = tuple[jax.Array | None, ...]


@dataclass(frozen=True)
class RuleCall:
    """A call to an operator in a graph. `metas` holds the fake tensors of its results."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    metas: tuple[Any, ...]
    scope: SizeScope
    key: Any = None

    def argument(self, name: str) -> Any:
        """Return the argument with this name in the operator's schema."""
        for position, argument in enumerate(self.op._schema.arguments):
            if argument.name == name:
                if position < len(self.args):
                    return self.args[position]
                return self.kwargs.get(name, argument.default_value)
        raise PaddingRefusal(f"{self.op.name()} without an argument {name}")

    def arguments(self) -> list[Any]:
        """Return all arguments in schema order."""
        return [self.argument(argument.name) for argument in self.op._schema.arguments]

    def lower(self, *args: Any, **kwargs: Any) -> Arrays:
        """Run the operator's lowering and cast its results to torch's dtypes.

        A padded argument is passed as its array, which includes the padding.
        """
        lowering = lowering_of(self.op)
        positional, named = bare(args), bare(kwargs)
        if lowering is None:
            return tuple(self.cast(self._composite(positional, named)))
        results = run(lowering, self.op, positional, named, _ANY, self.key)
        return tuple(self.cast(results if isinstance(results, list | tuple) else [results]))

    def cast(self, results: Sequence[Any]) -> list[jax.Array | None]:
        """Cast results to the dtypes that torch would return."""
        return [
            None
            if result is None or not isinstance(meta, torch.Tensor)
            else jax.lax.convert_element_type(jnp.asarray(result), dtypes.to_jax(meta.dtype))
            for result, meta in zip(results, self.metas, strict=True)
        ]

    def own(self, position: int = 0) -> tuple[Dim, ...]:
        """Return the dimensions of a result, none of which is split into factors."""
        return self.scope.dims(self.metas[position].shape)

    def dtype(self, position: int = 0) -> Any:
        """Return the dtype of a result."""
        return dtypes.to_jax(self.metas[position].dtype)

    def _composite(self, args: Any, kwargs: Any) -> Sequence[Any]:
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=lambda leaf: leaf is None)
        metas = [_standin(leaf) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
        positional, named = jax.tree.unflatten(structure, metas)
        program = lower_op(self.op, positional, named)
        if program.random or program.host_shape:
            raise PaddingRefusal(self.op.name())
        return program([leaf for leaf in leaves if isinstance(leaf, jax.Array)])


Rule: TypeAlias = Callable[[RuleCall], Any]
_F = TypeVar("_F", bound=Rule)
_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[_F], _F]:
    """Register a rule for operators. Raises ValueError if an operator already has a rule.

    A rule returns a list with an item for each result: a PaddedArray, or None if the result is not
    computed. It raises PaddingRefusal if padding would affect other elements.
    """

    def register(function: _F) -> _F:
        for name in names:
            if name in _RULES:
                raise ValueError(
                    f"{function.__module__}: '{name}' already has a rule in "
                    f"{_RULES[name].__module__}. Keep one of them"
                )
            _RULES[name] = function
        return function

    return register


def find(op: OpOverload) -> Rule | None:
    """Return the rule for an operator, or None if there is none."""
    return _RULES.get(op.name())


def names() -> frozenset[str]:
    """Return the names of all operators that have a rule."""
    return frozenset(_RULES)


def same(x: PaddedArray, array: Any) -> PaddedArray:
    """Return `array` as a PaddedArray with the dimensions of `x`."""
    return PaddedArray(array, x.dims)


def like(batch: Sequence[Dim], array: Any) -> PaddedArray:
    """Return `array` as a PaddedArray in which only the leading dims, `batch`, have padding."""
    return PaddedArray(array, (*batch, *plain(array.shape[len(batch) :])))


def plain(shape: Sequence[int]) -> tuple[Dim, ...]:
    """Return the dimensions of an unpadded array with this shape."""
    return tuple(() if size == 1 else (Extent(sympy.Integer(size), size),) for size in shape)


def require(name: str, dims: Sequence[Dim]) -> None:
    """Raise PaddingRefusal, for the operator `name`, if any of the dimensions has padding."""
    for dim in dims:
        if any(extent.padded for extent in dim):
            raise PaddingRefusal(f"{name} across a padded dimension")


def _standin(array: jax.Array) -> Any:
    dtype = dtypes.to_torch(array.dtype)
    if array.ndim == 0 and array.weak_type:
        return Number(0.0 if dtype.is_floating_point else 0)
    return torch.empty(array.shape, dtype=dtype, device="meta")


def bare(value: Any) -> Any:
    """Replace each PaddedArray in nested arguments with its array."""
    if isinstance(value, PaddedArray):
        return value.array
    if isinstance(value, Mapping):
        return {name: bare(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [bare(item) for item in value]
    return value


# A marker that tells `run` not to check or cast the lowering's results.
_ANY = object()

__all__ = [
    "Arrays",
    "Rule",
    "RuleCall",
    "find",
    "like",
    "names",
    "plain",
    "require",
    "rule",
    "same",
]
