# SPDX-License-Identifier: Apache-2.0
"""Templates for lines of a program, with conditions for the tensors that a line may use.

A template contains `{x}`, `{y}`, `{z}` for existing tensors and `{out}` for a new name. `<dim>`,
`<int>`, `<number>` and `<scalar>` are replaced by random values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Condition = Callable[[torch.Tensor], bool]


def is_any(_: torch.Tensor) -> bool:
    return True


def is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def is_single(x: torch.Tensor) -> bool:
    return x.dtype is torch.float32


def is_real(x: torch.Tensor) -> bool:
    return not x.is_complex() and x.dtype is not torch.bool


def is_integer(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool


def is_long(x: torch.Tensor) -> bool:
    return x.dtype is torch.int64


def is_complex(x: torch.Tensor) -> bool:
    return x.is_complex()


def is_mask(x: torch.Tensor) -> bool:
    return x.dtype is torch.bool


def is_matrix(x: torch.Tensor) -> bool:
    return x.dim() == 2


def is_filled(x: torch.Tensor) -> bool:
    return x.numel() > 0


def is_finite(x: torch.Tensor) -> bool:
    """Return whether all values are finite.

    Casts of infinity and NaN to integers are undefined in C, so devices may differ.
    """
    return bool(torch.isfinite(x).all())


def has_dims(dims: int) -> Condition:
    return lambda x: x.dim() >= dims


def is_disjoint(x: torch.Tensor) -> bool:
    """Return whether all elements have separate memory; after unfold or expand, some share it.

    The result of writing to elements that share memory is undefined in torch.
    """
    return torch._debug_has_internal_overlap(x) == 0


def is_plain(x: torch.Tensor) -> bool:
    return not x.requires_grad and is_disjoint(x)


def has_gradient(x: torch.Tensor) -> bool:
    return x.is_leaf and x.grad is not None


@dataclass(frozen=True)
class Operator:
    """A template with its conditions and flags.

    `rounds`: the result is inexact. `sharp`: the operator is discontinuous, so the line may read
    only exact tensors. `refused`: the CPU must reject the line; a line that it accepts is dropped.
    `values`: the CPU rejects the line because of values in tensors, which tpu checks only in debug
    mode. `tame`: never ignore the conditions, because a tensor contains indices, the CPU rejects
    more than tpu does, or rounding decides whether the line is rejected.
    """

    template: str
    conditions: tuple[tuple[Condition, ...], ...]
    rounds: bool = False
    sharp: bool = False
    refused: bool = False
    values: bool = False
    tame: bool = False


def row(
    template: str,
    *conditions: tuple[Condition, ...],
    rounds: bool = False,
    sharp: bool = False,
    tame: bool = False,
) -> Operator:
    """Return a template whose lines the CPU accepts if the tensors meet the conditions."""
    return Operator(template, conditions, rounds, sharp, tame=tame)


def refusal(
    template: str, *conditions: tuple[Condition, ...], values: bool = False, tame: bool = False
) -> Operator:
    """Return a template whose lines the CPU rejects if the tensors meet the conditions."""
    return Operator(template, conditions, refused=True, values=values, tame=tame)


X = (is_any,)
