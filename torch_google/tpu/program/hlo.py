# SPDX-License-Identifier: Apache-2.0
"""Reads the text of a compiled program (HLO): its computations and their instructions.

This module does not import JAX, because registering the device imports a module that uses this one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)(\(.*)$")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(
    r"\b(?:calls|body|condition|to_apply|branch_computations)=\{?(%[^,}\s]+(?:, ?%[^,}\s]+)*)"
)
_ARRAY = re.compile(r"\w+\[([\d,]*)\](?:\{([\d,]*))?")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_PARENTHESIS = re.compile(r"[()]")


@dataclass(frozen=True)
class Text:
    """The lines of each computation, in the program's text order: callees come before callers.

    `entry` is the name of the entry computation, or "" if the text has none.
    """

    computations: Mapping[str, Sequence[str]]
    entry: str


@dataclass(frozen=True)
class Instruction:
    """An instruction, which is one line of a computation.

    `type` is the text of its type with the layout, `literal` is the text between the parentheses
    after the opcode, and `attributes` is the text after them.
    """

    name: str
    type: str
    opcode: str
    literal: str
    attributes: str
    is_root: bool

    @classmethod
    def parsed(cls, line: str) -> Self | None:
        """Return the instruction in a line of text, or None if the line has none."""
        parts = _INSTRUCTION.match(line)
        if parts is None:
            return None
        text = parts[3]
        end = len(inside(text)) + 2 if text.startswith("(") else text.find(" ")
        call = _OPCODE.match(text[end:])
        if call is None:
            return None
        literal = inside(call[2])
        attributes = call[2][len(literal) + 2 :]
        return cls(parts[2], text[:end], call[1], literal, attributes, parts[1] is not None)

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Return the names of the operands."""
        return tuple(_NAME.findall(self.literal))

    @cached_property
    def called(self) -> tuple[str, ...]:
        """Return the names of the computations that this instruction calls."""
        lists = _CALLED.findall(self.attributes)
        return tuple(name for names in lists for name in _NAME.findall(names))

    @property
    def scope(self) -> str:
        """Return the named scopes in which JAX traced this instruction, or "" if unknown."""
        scope = _SCOPE.search(self.attributes)
        return scope[1] if scope else ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the result's shape, or () if the result is a tuple."""
        array = _ARRAY.match(self.type)
        return tuple(map(int, array[1].split(","))) if array and array[1] else ()

    @property
    def is_row_major(self) -> bool:
        """Return whether the result is an array whose last dimension is the innermost."""
        array = _ARRAY.match(self.type)
        if array is None:
            return False
        return (array[2] or "") == ",".join(map(str, reversed(range(len(self.sizes)))))

    @property
    def element_count(self) -> int:
        """Return the number of elements of the result, or 1 if the result is a tuple."""
        return math.prod(self.sizes)


def split(text: str) -> Text:
    """Split the text of a program into the lines of its computations."""
    computations: dict[str, list[str]] = {}
    entry, lines = "", list[str]()
    for line in text.splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif (header := _COMPUTATION.match(line)) is not None:
            lines = computations[header[2]] = []
            entry = header[2] if header[1] else entry
    return Text(computations, entry)


def inside(text: str) -> str:
    """Return the text between the first "(" and the ")" that matches it."""
    depth, start = 0, text.find("(") + 1
    for parenthesis in _PARENTHESIS.finditer(text):
        depth += 1 if parenthesis[0] == "(" else -1
        if depth == 0:
            return text[start : parenthesis.start()]
    return text[start:]
