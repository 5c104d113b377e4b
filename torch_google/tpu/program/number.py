# SPDX-License-Identifier: Apache-2.0
"""Python numbers that are inputs of a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A Python number that is an input of the program: its type counts, its value does not."""

    value: float | int


class BakedNumber(NotImplementedError):
    """The graph depends on the value of a Number: give it as it is, one program for each value."""
