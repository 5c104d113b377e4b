# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: their actual values in a call, and the buckets that they are padded to."""

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
    """Raised, with the reason, if an operator or a graph cannot run on padded arrays."""


@dataclass(frozen=True)
class BucketPolicy:
    """The bucket sizes, in increasing order. The default is the powers of two starting at 8."""

    sizes: tuple[int, ...] | None = None

    def bucket(self, size: int) -> int:
        """Return the bucket for a size. Raises PaddingRefusal for a size above the last bucket."""
        if self.sizes is None:
            return max(_LEAST, 1 << max(size - 1, 0).bit_length())
        for bucket in self.sizes:
            if size <= bucket:
                return bucket
        raise PaddingRefusal("a size above the last bucket")


@dataclass(frozen=True)
class Extent:
    """A factor of a dimension: `size` elements, of which the first `expr` are not padding."""

    expr: sympy.Expr
    size: int

    @property
    def padded(self) -> bool:
        """Return whether the extent may contain padding, because `expr` is symbolic."""
        return not self.expr.is_Integer


Dim: TypeAlias = tuple[Extent, ...]
"""A dimension: the row-major product of its extents, as created by flattening. () has size 1."""


def normal(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    """Return dimensions in canonical form, in which only the first extent may lack padding.

    Any other extent without padding is merged into the preceding extent. In the merged extent, the
    real elements still come before the padding.
    """
    canonical = []
    for dim in dims:
        extents: list[Extent] = []
        for extent in dim:
            if extents and not extent.padded:
                last = extents.pop()
                extent = Extent(last.expr * extent.expr, last.size * extent.size)
            if extent.size != 1 or extent.padded:
                extents.append(extent)
        canonical.append(tuple(extents))
    return tuple(canonical)


def width(dim: Dim) -> int:
    """Return the size of a dimension, including padding."""
    return math.prod(extent.size for extent in dim)


def expression(dim: Dim) -> sympy.Expr:
    """Return the size of a dimension, excluding padding, as a sympy expression."""
    return sympy.Mul(*(extent.expr for extent in dim))


def is_padded(dim: Dim) -> bool:
    """Return whether a dimension may contain padding."""
    return any(extent.padded for extent in dim)


def expr_of(size: Any) -> sympy.Expr:
    """Return the size of a fake tensor's dimension as a sympy expression."""
    if isinstance(size, torch.SymInt):
        return size.node.expr
    return sympy.Integer(int(size))


class SizeScope:
    """The buckets of symbolic sizes, and the values of the symbols in a call, as traced scalars.

    A symbol in `fixed` equals its bucket, so it causes no padding. The scope records the
    assumptions that an evaluation makes, and `holds` checks whether they are true for a call.
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
        """Return a scope that has the given values and shares this scope's recorded assumptions."""
        scope = SizeScope(self.buckets, self._fixed, values)
        scope._extents, scope._equal = self._extents, self._equal
        return scope

    def expr(self, size: Any) -> sympy.Expr:
        """Return a size as a sympy expression, with fixed symbols replaced by their buckets."""
        expr = size if isinstance(size, sympy.Expr) else expr_of(size)
        return expr.xreplace(self._fixed) if expr.free_symbols else expr

    def is_fixed(self, size: Any) -> bool:
        """Return whether a size of a fake tensor is the same in all calls."""
        return bool(self.expr(size).is_Integer)

    def extent(self, size: Any) -> Extent:
        """Return the `Extent` for a size, given as a sympy expression or by a fake tensor."""
        expr = self.expr(size)
        extent = Extent(expr, int(number(expr, self.buckets)))
        if extent.size < 0:
            raise PaddingRefusal(f"the size {expr}")
        self._extents.add(extent)
        return extent

    def dim(self, size: Any) -> Dim:
        """Return the `Dim` for a size. It has one `Extent`, or no extents if the size is 1."""
        expr = self.expr(size)
        return () if expr == 1 else (self.extent(expr),)

    def dims(self, sizes: Iterable[Any]) -> tuple[Dim, ...]:
        """Return the `Dim` for each size."""
        return tuple(self.dim(size) for size in sizes)

    def value(self, expr: sympy.Expr) -> Any:
        """Return an expression's value: a number if it is constant, otherwise a traced scalar."""
        return number(self.expr(expr), self._values)

    def real(self, dim: Dim) -> Any:
        """Return the size of a dimension, excluding padding, as a number or a traced scalar."""
        return self.value(expression(dim))

    def count(self, dims: Iterable[Dim]) -> Any:
        """Return the number of elements, excluding padding, in a tensor with these dimensions."""
        return math.prod((self.real(dim) for dim in dims), start=1)

    def expect(self, dims: Iterable[Dim], sizes: Iterable[Any]) -> None:
        """Record the assumption that dimensions equal a fake tensor's sizes.

        Raises PaddingRefusal if constant sizes differ.
        """
        for dim, size in zip(dims, sizes, strict=True):
            own, expected = expression(dim), self.expr(size)
            if own == expected or sympy.expand(own - expected) == 0:
                continue
            if own.is_Integer and expected.is_Integer:
                raise PaddingRefusal(f"a size of {own} where torch has {expected}")
            self._equal.add((own, expected))

    def holds(self, values: Mapping[Any, int]) -> bool:
        """Return whether all recorded assumptions hold for these values of the symbols."""
        return all(0 <= number(e.expr, values) <= e.size for e in self._extents) and all(
            number(actual, values) == number(expected, values) for actual, expected in self._equal
        )


def factored(scope: SizeScope, size: Any, neighbors: Sequence[tuple[Any, ...]]) -> Dim:
    """Return the `Dim` for a size, with an `Extent` for each factor if the size is a product.

    The factors are adjacent sizes of some tensor in the graph. `neighbors` lists the sizes of each
    tensor with several symbolic dimensions.
    """
    expr = scope.expr(size)
    for sizes in neighbors:
        for start in range(len(sizes)):
            for end in range(start + 2, len(sizes) + 1):
                parts = [scope.expr(part) for part in sizes[start:end]]
                if sympy.Mul(*parts) == expr:
                    return tuple(scope.extent(part) for part in parts if part != 1)
    return scope.dim(expr)


def number(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return the value of an expression, given the values of its symbols.

    The values are numbers or traced scalars. Raises PaddingRefusal if a symbol has no value, or if
    the expression contains an unsupported function.
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
    greatest = parts[0]
    for part in parts[1:]:
        traced = isinstance(greatest, jax.Array) or isinstance(part, jax.Array)
        greatest = jnp.maximum(greatest, part) if traced else max(greatest, part)
    return greatest


def _lesser(*parts: Any) -> Any:
    return -_greater(*(-part for part in parts))


@dataclass(frozen=True)
class _Quotient:
    """An unrounded quotient, which the enclosing `CeilToInt` or `FloorToInt` rounds."""

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
