# SPDX-License-Identifier: Apache-2.0
"""Make a program that shows a difference as small as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.program import Program


def minimise(program: Program, differs: Callable[[Program], bool]) -> Program:
    """Return `program` with as few lines as possible for which `differs` is still true.

    First try to remove halves of the program, then quarters and so on. No single line of the result
    can be removed.
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
