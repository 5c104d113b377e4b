# SPDX-License-Identifier: Apache-2.0
"""A template of a line, and the conditions that its tensors meet.

A template has `{x}`, `{y}`, `{z}` for tensors and `{out}` for a new name. `<dim>`, `<int>`,
`<number>` and `<scalar>` are replaced by random values.
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
    """Return whether every value is finite: C does not define casts of other values to integers."""
    return bool(torch.isfinite(x).all())


def has_dims(dims: int) -> Condition:
    return lambda x: x.dim() >= dims


def is_disjoint(x: torch.Tensor) -> bool:
    """Return whether no two elements share memory, as in results of unfold and expand.

    torch does not define writes to shared elements.
    """
    return torch._debug_has_internal_overlap(x) == 0


def is_plain(x: torch.Tensor) -> bool:
    return not x.requires_grad and is_disjoint(x)


def has_gradient(x: torch.Tensor) -> bool:
    return x.is_leaf and x.grad is not None


@dataclass(frozen=True)
class Operator:
    """A template and its flags.

    `sharp`: its result is discontinuous, so it reads exact tensors only.
    `refused`: the CPU must refuse its lines; accepted lines are dropped.
    `tame`: its tensors always meet the conditions, because they are indices or only the CPU refuses
    more. `values`: the CPU refuses it because of values, which the device checks in debug mode
    only.
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
    """Return an operator that the CPU accepts for tensors that meet the conditions."""
    return Operator(template, conditions, rounds, sharp, tame=tame)


def refusal(template: str, *conditions: tuple[Condition, ...], values: bool = False) -> Operator:
    """Return an operator that the CPU refuses for tensors that meet the conditions."""
    return Operator(template, conditions, refused=True, values=values)


X = (is_any,)
