# SPDX-License-Identifier: Apache-2.0
"""Python numbers as operator arguments, either as program inputs or in place of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload


@dataclass(frozen=True)
class Number:
    """A Python number that is a program input. A program depends on its type, not on its value."""

    value: float | int


class BakedNumber(NotImplementedError):
    """Raised if a graph depends on a Number's value, so the number must be a constant."""


def accepted_arguments(op: OpOverload, values: Sequence[Any], device: str) -> list[Any]:
    """Convert numbers to tensors, unless the operator accepts numbers in place of tensors.

    `values` holds the first arguments, in the order of the schema.
    """
    if torch._C._should_allow_numbers_as_tensors(op._schema.name.split("::")[1]):
        return list(values)
    return [
        torch.tensor(value, device=device)
        if isinstance(value, int | float) and str(argument.type) in ("Tensor", "Optional[Tensor]")
        else value
        for argument, value in zip(op._schema.arguments, values, strict=False)
    ]


def apply(op: OpOverload, values: Sequence[Any]) -> Any:
    """Call an operator. `values` holds all arguments, in the order of the schema."""
    pairs = list(zip(op._schema.arguments, values, strict=True))
    return op(
        *(value for argument, value in pairs if not argument.kwarg_only),
        **{argument.name: value for argument, value in pairs if argument.kwarg_only},
    )
