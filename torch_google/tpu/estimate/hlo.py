# SPDX-License-Identifier: Apache-2.0
"""Parses the text of a compiled program: computations, instructions, sizes, and live buffers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_WIDTHS = {"pred": 8, "token": 0, "s4": 4, "u4": 4, "s2": 2, "u2": 2, "c64": 64, "c128": 128}
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\](?:\{([^}]*)\})?")
_TILE = re.compile(r"T\(([\d,]+)\)")
_SPACE = re.compile(r"S\((\d+)\)")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*)$")
_NAME = re.compile(r"%([\w.-]+)")
_KERNEL = 'custom_call_target="tpu_custom_call"'
_NODE = re.compile(r'op_name="[^"]*/n(\d+)[/"]')
_CALLED = re.compile(
    r"(?:calls|body|condition|to_apply|branch_computations)=\{?(%[^,}\s]+(?:, ?%[^,}\s]+)*)"
)
_HEADER = re.compile(r"^(ENTRY )?%?([^\s(]+) \(.*\{$")
_OWN_FLOPS = re.compile(r'"cost_estimate":\{"flops":"(\d+)"')
# Instructions whose result aliases all or part of an operand's buffer.
ALIASES = frozenset({"bitcast", "get-tuple-element", "tuple", "optimization-barrier", "domain"})
FREE = frozenset({*ALIASES, "parameter", "constant", "after-all", "partition-id", "replica-id"})
DONE = ("-done", "-update")


@dataclass(frozen=True)
class Instruction:
    """An instruction of a computation. `bytes` is the size of its result in HBM.

    `type` is the text of its type, and `attributes` is the text after its operands.
    """

    name: str
    opcode: str
    operands: tuple[str, ...]
    bytes: int
    scope: str
    cycles: int
    root: bool
    type: str = field(repr=False)
    attributes: str = field(repr=False)

    @property
    def called(self) -> tuple[str, ...]:
        """Return the names of the computations that this instruction calls."""
        found = _CALLED.findall(self.attributes)
        return tuple(name for names in found for name in _NAME.findall(names))

    @property
    def node(self) -> int | None:
        """Return the position of the graph node that this instruction computes, or None."""
        label = re.search(r"/n(\d+)(?:/|$)", self.scope)
        return int(label[1]) if label else None

    @property
    def argument(self) -> int | None:
        """Return the argument index of a parameter instruction, or None for any other."""
        index = re.fullmatch(r"inputs\[(\d+)\]", self.scope)
        return int(index[1]) if index and self.opcode == "parameter" else None


@dataclass(frozen=True)
class Module:
    """A program's computations, each in execution order, and the name of its entry computation.

    `partitions` is the number of devices that run the program.
    """

    computations: Mapping[str, Sequence[Instruction]]
    entry: str
    partitions: int


def module(text: str) -> Module:
    """Return the computations of a program. Raises ValueError if the text has no entry."""
    computations: dict[str, list[Instruction]] = {}
    entry_name, current = "", None
    for line in text.splitlines():
        if not line.startswith(" "):
            header = _HEADER.match(line)
            if header:
                current = computations[header[2]] = []
                entry_name = header[2] if header[1] else entry_name
        elif current is not None and (parsed := _INSTRUCTION.match(line)):
            split = _opcode(parsed[3])
            if split is not None:
                current.append(_instruction(bool(parsed[1]), parsed[2], *split))
    if not computations.get(entry_name):
        raise ValueError("tpu: estimate: the compiler's text has no entry computation")
    partitions = re.search(r"num_partitions=(\d+)", text.partition("\n")[0])
    return Module(computations, entry_name, int(partitions[1]) if partitions else 1)


def size_of(type_text: str, *, everywhere: bool = False) -> int:
    """Return how many bytes of HBM a type's arrays occupy, including the padding of their tiles.

    With `everywhere`, arrays in other memories, such as a TPU's VMEM, count as well.
    """
    total = 0
    for dtype, sizes, layout in _ARRAY.findall(type_text):
        space = _SPACE.search(layout)
        if space and space[1] != "0" and not everywhere:
            continue
        total += _bits(dtype) * _elements(sizes, layout) // 8
    return total


def entry(text: str) -> Sequence[Instruction]:
    """Return the instructions of the entry computation in execution order.

    Raises ValueError if the text has no entry computation.
    """
    parsed = module(text)
    return parsed.computations[parsed.entry]


def shape_of(type_text: str) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and the shape of an array type, or of a tuple type's first array."""
    array = _ARRAY.search(type_text)
    if array is None:
        return "", ()
    return array[1], tuple(int(size) for size in array[2].split(",") if size)


def result_type(type_text: str, opcode: str) -> str:
    """Return the part of an instruction's type that describes its result.

    A copy-start has the type (result, operand, context), and an all-reduce-start the type of its
    result. Other starts have the type (operand, result, ...), in which either may be a tuple.
    """
    if not opcode.endswith("-start") or opcode == "all-reduce-start":
        return type_text
    elements = items(type_text)
    return elements[0 if opcode == "copy-start" or len(elements) == 1 else 1]


def items(type_text: str) -> list[str]:
    """Return the element types of a tuple type, or a list of just the type if it is not a tuple."""
    if not type_text.startswith("("):
        return [type_text]
    elements, depth = [""], 0
    for character in _parenthesised(type_text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            elements.append("")
        else:
            elements[-1] += character
    return [element.strip() for element in elements]


def kernel_flops(text: str) -> dict[int, int]:
    """Map each graph node that runs Pallas kernels to the flops that XLA counts for them.

    XLA cannot inspect a kernel. It uses the kernel's own estimate, or 0 if the kernel has none.
    """
    counted: dict[int, int] = {}
    for line in text.splitlines():
        node = _NODE.search(line) if _KERNEL in line else None
        if node:
            own = _OWN_FLOPS.search(line)
            counted[int(node[1])] = counted.get(int(node[1]), 0) + (int(own[1]) if own else 0)
    return counted


def live_at_peak(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return the temporaries that are live in HBM at the peak, largest first.

    Arguments are not included, because they live for the whole program. A result that XLA writes
    into an argument's buffer counts as a temporary here.
    """
    owner: dict[str, tuple[str, ...]] = {}
    last: dict[str, int] = {}
    by_name = {i.name: i for i in instructions}
    for index, instruction in enumerate(instructions):
        for operand in instruction.operands:
            for name in owner.get(operand, ()):
                last[name] = index
        aliases = instruction.opcode in ALIASES or instruction.opcode.endswith(DONE)
        if aliases:
            owner[instruction.name] = tuple(
                dict.fromkeys(n for o in instruction.operands for n in owner.get(o, ()))
            )
        else:
            owner[instruction.name] = (instruction.name,)
            last[instruction.name] = index
        if instruction.root:
            for name in owner[instruction.name]:
                last[name] = len(instructions)
    held = {
        name
        for name in last
        if by_name[name].opcode not in ("parameter", "constant") and by_name[name].bytes
    }
    ends: dict[int, list[str]] = {}
    for name in held:
        ends.setdefault(last[name], []).append(name)
    now, most, peak_at = 0, -1, 0
    for index, instruction in enumerate(instructions):
        now += instruction.bytes if instruction.name in held else 0
        if now > most:
            most, peak_at = now, index
        now -= sum(by_name[name].bytes for name in ends.get(index, ()))
    born = {i.name: index for index, i in enumerate(instructions)}
    at_peak = [by_name[n] for n in held if born[n] <= peak_at <= last[n]]
    return sorted(at_peak, key=lambda i: (-i.bytes, i.name))


def _instruction(root: bool, name: str, type_text: str, opcode: str, rest: str) -> Instruction:
    inside = _parenthesised(rest)
    scope = re.search(r'op_name="([^"]*)"', rest)
    cycles = re.search(r'"estimated_cycles":"(\d+)"', rest)
    return Instruction(
        name,
        opcode,
        tuple(_NAME.findall(inside)),
        size_of(result_type(type_text, opcode)),
        scope[1] if scope else "",
        int(cycles[1]) if cycles else 0,
        root,
        type_text,
        # A constant has its value in the place of operands.
        rest if opcode in ("constant", "parameter") else rest[len(inside) + 2 :],
    )


def _opcode(text: str) -> tuple[str, str, str] | None:
    """Split an instruction into its type, its opcode, and the rest, which starts with "("."""
    end = len(_parenthesised(text)) + 2 if text.startswith("(") else text.find(" ")
    parsed = re.match(r"\s*([\w-]+)(\(.*)", text[end:], re.DOTALL)
    return (text[:end], parsed[1], parsed[2]) if parsed else None


def _parenthesised(text: str) -> str:
    """Return the text between the first "(" and the ")" that matches it."""
    depth = 0
    start = text.find("(")
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return text[start + 1 : index]
    return text[start + 1 :]


def _bits(dtype: str) -> int:
    digits = re.match(r"(?:bf|[suf])(\d+)", dtype)
    return _WIDTHS.get(dtype, int(digits[1]) if digits else 0)


def _elements(sizes: str, layout: str) -> int:
    shape = [int(size) for size in sizes.split(",") if size]
    tile = _TILE.search(layout)
    order = layout.partition(":")[0]
    if not shape or tile is None:
        return math.prod(shape)
    # `order` is minor-to-major, and the tile applies to the most minor dimensions.
    fastest = [int(d) for d in order.split(",") if d]
    lengths = [int(length) for length in tile[1].split(",")]
    for dimension, length in zip(fastest, reversed(lengths), strict=False):
        shape[dimension] = -(-shape[dimension] // length) * length
    return math.prod(shape)
