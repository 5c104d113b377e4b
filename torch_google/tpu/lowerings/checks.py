# SPDX-License-Identifier: Apache-2.0
"""Checks of argument values: indices must be in range, and integer divisors must not be zero.

For invalid values, the CPU raises an error. XLA instead clamps an index or drops the write, and
returns an arbitrary quotient. In debug mode, the device raises the same error as the CPU, because
these checks run before the operator, as separate programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import jax.numpy as jnp
from jax import Array

_F = TypeVar("_F", bound=Callable[..., "Checks"])


@dataclass(frozen=True)
class Check:
    """A check whose `failed` is true if the arguments are invalid.

    `words` is the error message, in which `values` are substituted for the `{}` placeholders.
    `kind` is the error's type. `failed` and `values` are scalars that a program computes.
    """

    failed: Array
    values: tuple[Array, ...]
    kind: type[Exception]
    words: str


Checks: TypeAlias = Sequence[Check]


def check_of(name: str) -> Callable[..., Checks] | None:
    """Return the function that builds a pure operator's checks, or None if it has no checks.

    Callers use `lowerings.check_of`, which populates the table first.
    """
    return _TABLE.get(name)


def check(*names: str) -> Callable[[_F], _F]:
    """Register a function that builds checks for operators. Raises ValueError for a duplicate."""
    return _check(*names)


_TABLE: dict[str, Callable[..., Checks]] = {}


def _check(*names: str) -> Callable[[_F], _F]:
    def register(function: _F) -> _F:
        for name in names:
            if name in _TABLE:
                raise ValueError(f"{__name__}: '{name}' already has checks. Keep one of them")
            _TABLE[name] = function
        return function

    return register


@_check(
    "aten::gather",
    "aten::scatter.src",
    "aten::scatter.value",
    "aten::scatter.reduce",
    "aten::scatter.value_reduce",
    "aten::scatter_add",
    "aten::scatter_reduce.two",
    "aten::index_select",
    "aten::index_add",
    "aten::index_copy",
    "aten::index_reduce",
)
def along_a_dimension(self: Array, dim: int, index: Array, *_: Any, **__: Any) -> Checks:
    if not self.size:
        return ()  # the CPU returns an empty tensor before it reads the indices
    return _within(index, _size(self, dim))


@_check("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(self: Array, dim: int, index: Array, value: Any) -> Checks:
    return _within(index, _size(self, dim), wraps=True)


@_check("aten::take", "aten::put")
def in_a_flat_tensor(self: Array, index: Array, *_: Any) -> Checks:
    return _within(index, self.size, wraps=True)


@_check("aten::index.Tensor")
def index(self: Array, indices: Sequence[Array | None]) -> Checks:
    return _positions(self, indices)


@_check("aten::index_put", "aten::_index_put_impl")
def index_put(
    self: Array, indices: Sequence[Array | None], values: Array, *_: Any, **__: Any
) -> Checks:
    checks = _positions(self, indices)
    indexed = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(indexed) != 1 or indexed[0][1].dtype not in (jnp.bool_, jnp.uint8):
        return checks
    axis, mask = indexed[0]
    behind = self.ndim - axis - mask.ndim
    if values.ndim <= behind or values.shape[-1 - behind] == 1:
        return checks
    taken, size = (mask != 0).sum(), values.shape[-1 - behind]
    message = f"shape mismatch: the mask selects {{}} elements, but there are {size} values"
    return [*checks, Check(taken != size, (taken,), RuntimeError, message)]


def _positions(self: Array, indices: Sequence[Array | None]) -> list[Check]:
    checks: list[Check] = []
    dim = 0
    for places in indices:
        if places is None:
            dim += 1
        elif places.dtype in (jnp.bool_, jnp.uint8):  # a mask covers as many dimensions as it has
            dim += places.ndim
        else:
            checks += _within(places, self.shape[dim], wraps=True)
            dim += 1
    return checks


@_check(
    "aten::embedding",
    "aten::embedding_renorm",
)
def rows(weight: Array, indices: Array, *_: Any, **__: Any) -> Checks:
    return _within(indices, weight.shape[0])


@_check("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss(
    x: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> Checks:
    target = target.astype(jnp.int64)
    counts = target != ignore_index
    return _within(target, x.shape[0 if x.ndim == 1 else 1], where=counts, name="target")


@_check("aten::multi_margin_loss")
def multi_margin_loss(x: Array, target: Array, *_: Any, **__: Any) -> Checks:
    return _within(target, _size(x, -1), name="target")


@_check("aten::multilabel_margin_loss_forward")
def multilabel_margin_loss(x: Array, target: Array, reduction: int) -> Checks:
    # The first -1 in a row ends the row's list of targets.
    return _within(target, _size(x, -1), where=target != -1, name="target")


@_check("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(
    gradient: Array,
    x: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total: Array,
) -> Checks:
    return nll_loss(x, target, weight, reduction, ignore_index)


@_check("aten::multi_margin_loss_backward")
def multi_margin_loss_backward(gradient: Array, x: Array, target: Array, *_: Any) -> Checks:
    return multi_margin_loss(x, target)


@_check("aten::multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(
    gradient: Array, x: Array, target: Array, reduction: int, is_target: Array
) -> Checks:
    return multilabel_margin_loss(x, target, reduction)


@_check("aten::masked_scatter")
def masked_scatter(self: Array, mask: Array, source: Array) -> Checks:
    shape = jnp.broadcast_shapes(self.shape, mask.shape)
    count = jnp.broadcast_to(mask != 0, shape).sum()
    message = f"{{}} places are true in the mask, but the source has {source.size} elements"
    return [Check(count > source.size, (count,), RuntimeError, message)]


@_check(
    "aten::floor_divide",
    "aten::floor_divide.Scalar",
    "aten::remainder.Tensor",
    "aten::remainder.Scalar",
    "aten::remainder.Scalar_Tensor",
    "aten::fmod.Tensor",
    "aten::fmod.Scalar",
)
def quotient(self: Any, other: Any) -> Checks:
    dividend, divisor = jnp.asarray(self), jnp.asarray(other)
    if not (_is_integer(dividend) and _is_integer(divisor)):
        return []
    if 0 in jnp.broadcast_shapes(dividend.shape, divisor.shape):
        return []  # the result is empty, as in take_along_dim on an empty tensor
    message = "ZeroDivisionError: an integer is divided by 0"
    return [Check((divisor == 0).any(), (), RuntimeError, message)]


@_check("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def rounded_quotient(self: Any, other: Any, *, rounding_mode: str | None) -> Checks:
    return quotient(self, other) if rounding_mode is not None else []


def _within(
    index: Array,
    size: int,
    *,
    wraps: bool = False,
    where: Array | None = None,
    name: str = "index",
) -> Checks:
    """Return a check that indices are in [0, size), or in [-size, size) if `wraps` is set."""
    if not index.size:
        return []
    low = -size if wraps else 0
    wrong = (index < low) | (index >= size)
    if where is not None:
        wrong &= where
    # Report the first invalid value, because users can locate it most easily.
    value = index.reshape(-1)[jnp.argmax(wrong.reshape(-1))]
    allowed = f"Use {low} to {size - 1}" if size else "The dimension is empty"
    message = f"{name} {{}} is out of range for a size of {size}. {allowed}"
    return [Check(wrong.any(), (value,), IndexError, message)]


def _size(x: Array, dim: int) -> int:
    return int(x.shape[dim]) if x.ndim else 1


def _is_integer(x: Array) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == jnp.bool_)
