# SPDX-License-Identifier: Apache-2.0
"""Sizes that are expressions of symbols: what they are in a call, and in a bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import sympy
import torch

_LEAST = 8


class PaddingRefusal(Exception):
    """What keeps a graph from running on padded arrays: a reason, in a few words."""


@dataclass(frozen=True)
class BucketPolicy:
    """`sizes`: the buckets, rising; None for powers of two, from 8."""

    sizes: tuple[int, ...] | None = None

    def bucket(self, size: int) -> int:
        """Return the bucket for a size. Raises PaddingRefusal for one above the last."""
        if self.sizes is None:
            return max(_LEAST, 1 << max(size - 1, 0).bit_length())
        for bucket in self.sizes:
            if size <= bucket:
                return bucket
        raise PaddingRefusal("a size above the last bucket")


@dataclass(frozen=True)
class Extent:
    """A run of elements: `expr` of them are real, and lead; there are `size` with the padding."""

    expr: sympy.Expr
    size: int

    @property
    def padded(self) -> bool:
        """Whether the real size is none that is known."""
        return not self.expr.is_Integer


Dim: TypeAlias = tuple[Extent, ...]
"""A dimension: the row-major product of extents, as flattening leaves them. None are size 1."""


def normal(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    """Return dimensions in the one way to write them: no extent but the first is a number.

    What follows an extent and has no padding keeps the real elements in front, so it joins it.
    """
    found = []
    for dim in dims:
        extents: list[Extent] = []
        for extent in dim:
            if extents and not extent.padded:
                last = extents.pop()
                extent = Extent(last.expr * extent.expr, last.size * extent.size)
            if extent.size != 1 or extent.padded:
                extents.append(extent)
        found.append(tuple(extents))
    return tuple(found)


def width(dim: Dim) -> int:
    """Return the size of a dimension in an array."""
    return math.prod(extent.size for extent in dim)


def expression(dim: Dim) -> sympy.Expr:
    """Return the real size of a dimension."""
    return sympy.Mul(*(extent.expr for extent in dim))


def is_padded(dim: Dim) -> bool:
    """Whether some elements of a dimension may be padding."""
    return any(extent.padded for extent in dim)


def expr_of(size: Any) -> sympy.Expr:
    """Return the expression of a size of a fake tensor's."""
    if isinstance(size, torch.SymInt):
        return size.node.expr
    return sympy.Integer(int(size))


class SizeScope:
    """What symbols stand for: their buckets, and, as traced scalars, their values in a call.

    A symbol that is `fixed` is the number that its bucket is, and has no padding. What an evaluation takes for granted is noted, and `holds` says whether it is so for a call.
    """

    def __init__(
        self,
        buckets: Mapping[sympy.Symbol, int],
        fixed: Collection[sympy.Symbol] = (),
        values: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        self.buckets = buckets
        self.fixed = sorted(fixed, key=str)
        self._fixed = {symbol: sympy.Integer(buckets[symbol]) for symbol in fixed}
        self._values = values
        self._extents: set[Extent] = set()
        self._equal: set[tuple[sympy.Expr, sympy.Expr]] = set()

    def within(self, values: Mapping[Any, Any]) -> SizeScope:
        """Return the same for other values; what is taken for granted is noted here, too."""
        made = SizeScope(self.buckets, self._fixed, values)
        made._extents, made._equal = self._extents, self._equal
        return made

    def expr(self, size: Any) -> sympy.Expr:
        """Return the expression of a size of a fake tensor's."""
        found = size if isinstance(size, sympy.Expr) else expr_of(size)
        return found.xreplace(self._fixed) if found.free_symbols else found

    def is_fixed(self, size: Any) -> bool:
        """Whether a size of a fake tensor's is one number in all calls."""
        return bool(self.expr(size).is_Integer)

    def extent(self, size: Any) -> Extent:
        """Return an extent of its own, for a size of a fake tensor's or an expression."""
        expr = self.expr(size)
        made = Extent(expr, int(number(expr, self.buckets)))
        if made.size < 0:
            raise PaddingRefusal(f"the size {expr}")
        self._extents.add(made)
        return made

    def dim(self, size: Any) -> Dim:
        """Return a dimension of one extent, for a size of a fake tensor's or an expression."""
        expr = self.expr(size)
        return () if expr == 1 else (self.extent(expr),)

    def dims(self, sizes: Iterable[Any]) -> tuple[Dim, ...]:
        """Return dimensions of one extent each."""
        return tuple(self.dim(size) for size in sizes)

    def value(self, expr: sympy.Expr) -> Any:
        """Return an expression as a number where it is one, else as a traced scalar."""
        return number(self.expr(expr), self._values)

    def real(self, dim: Dim) -> Any:
        """Return the real size of a dimension: a number, or a traced scalar."""
        return self.value(expression(dim))

    def count(self, dims: Iterable[Dim]) -> Any:
        """Return how many real elements there are in some dimensions."""
        return math.prod((self.real(dim) for dim in dims), start=1)

    def expect(self, dims: Iterable[Dim], sizes: Iterable[Any]) -> None:
        """Note that dimensions have the sizes of a fake tensor. Raises PaddingRefusal if they never do."""
        for dim, size in zip(dims, sizes, strict=True):
            ours, theirs = expression(dim), self.expr(size)
            if ours == theirs or sympy.expand(ours - theirs) == 0:
                continue
            if ours.is_Integer and theirs.is_Integer:
                raise PaddingRefusal(f"a size of {ours} where torch has {theirs}")
            self._equal.add((ours, theirs))

    def holds(self, values: Mapping[Any, int]) -> bool:
        """Whether all that was taken for granted is so for such values of the symbols."""
        return all(0 <= number(e.expr, values) <= e.size for e in self._extents) and all(
            number(ours, values) == number(theirs, values) for ours, theirs in self._equal
        )


def factored(scope: SizeScope, size: Any, neighbours: Sequence[tuple[Any, ...]]) -> Dim:
    """Return a dimension of what flattening left: as factors, in an order that a graph has them.

    `neighbours` are the sizes of tensors in the graph that have several symbols.
    """
    expr = scope.expr(size)
    for sizes in neighbours:
        for start in range(len(sizes)):
            for end in range(start + 2, len(sizes) + 1):
                parts = [scope.expr(part) for part in sizes[start:end]]
                if sympy.Mul(*parts) == expr:
                    return tuple(scope.extent(part) for part in parts if part != 1)
    return scope.dim(expr)


def number(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return what an expression is for such values of its symbols: numbers, or traced scalars.

    Raises PaddingRefusal for a symbol without a value, and for a function that sizes do not have.
    """
    if isinstance(expr, int):
        return expr
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        if expr not in values:
            raise PaddingRefusal("a size that depends on values")
        return values[expr]
    function = _FUNCTIONS.get(type(expr).__name__)
    if function is None:
        raise PaddingRefusal(f"the size {expr}")
    return function(*(number(part, values) for part in expr.args))


def _greater(*parts: Any) -> Any:
    found = parts[0]
    for part in parts[1:]:
        traced = isinstance(found, jax.Array) or isinstance(part, jax.Array)
        found = jnp.maximum(found, part) if traced else max(found, part)
    return found


def _lesser(*parts: Any) -> Any:
    return -_greater(*(-part for part in parts))


@dataclass(frozen=True)
class _Quotient:
    """A quotient that is rounded next."""

    over: Any
    under: Any


def _up(quotient: Any) -> Any:
    return -(-quotient.over // quotient.under) if isinstance(quotient, _Quotient) else quotient


def _down(quotient: Any) -> Any:
    return quotient.over // quotient.under if isinstance(quotient, _Quotient) else quotient


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *parts: sum(parts[1:], start=parts[0]),
    "Mul": lambda *parts: math.prod(parts[1:], start=parts[0]),
    "Pow": lambda base, power: base**power,
    "PowByNatural": lambda base, power: base**power,
    "FloorDiv": lambda over, under: over // under,
    "CleanDiv": lambda over, under: over // under,
    "CeilDiv": lambda over, under: -(-over // under),
    "IntTrueDiv": _Quotient,
    "CeilToInt": _up,
    "FloorToInt": _down,
    "Mod": lambda over, under: over % under,
    "PythonMod": lambda over, under: over % under,
    "Max": _greater,
    "Min": _lesser,
    "Identity": lambda part: part,
}
