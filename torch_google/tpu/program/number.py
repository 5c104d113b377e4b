# SPDX-License-Identifier: Apache-2.0
"""Python numbers as arguments: inputs of a program, or in place of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload


@dataclass(frozen=True)
class Number:
    """A Python number that is an input of the program: its type counts, its value does not."""

    value: float | int


class BakedNumber(NotImplementedError):
    """The graph depends on the value of a Number: give it as it is, one program for each value."""


def taken(op: OpOverload, values: Sequence[Any], device: str) -> list[Any]:
    """Return arguments as an operator takes them: not each takes numbers in place of tensors.

    `values`: those of the first arguments of its schema.
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
    """Call an operator with all of its arguments in the order of its schema."""
    given = list(zip(op._schema.arguments, values, strict=True))
    return op(
        *(value for argument, value in given if not argument.kwarg_only),
        **{argument.name: value for argument, value in given if argument.kwarg_only},
    )
