# SPDX-License-Identifier: Apache-2.0
"""Reduce a program that gives wrong results to as few lines as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.program import Program


def minimize(program: Program, differs: Callable[[Program], bool]) -> Program:
    """Remove as many lines of `program` as possible while `differs` remains true.

    Try removing halves of the program first, then quarters, and so on, until no single line can be
    removed.
    """
    lines = list(program.lines)
    size = max(len(lines) // 2, 1)
    while True:
        shorter = False
        start = len(lines)
        while start > 0:
            start -= size
            rest = lines[: max(start, 0)] + lines[start + size :]
            if rest != lines and rest and differs(replace(program, lines=tuple(rest))):
                lines, shorter = rest, True
        if size == 1 and not shorter:
            return replace(program, lines=tuple(lines))
        size = max(size // 2, 1)
