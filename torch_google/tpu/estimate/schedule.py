# SPDX-License-Identifier: Apache-2.0
"""The instructions of a compiled program in execution order, their sizes, and live buffers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_google.tpu.program import hlo

_WIDTHS = {"pred": 8, "token": 0, "s4": 4, "u4": 4, "s2": 2, "u2": 2, "c64": 64, "c128": 128}
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\](?:\{([^}]*)\})?")
_TILE = re.compile(r"T\(([\d,]+)\)")
_SPACE = re.compile(r"S\((\d+)\)")
_KERNEL = 'custom_call_target="tpu_custom_call"'
_NODE = re.compile(r'op_name="[^"]*/n(\d+)[/"]')
_LABEL = re.compile(r"/n(\d+)(?:/|$)")
_ARGUMENT = re.compile(r"inputs\[(\d+)\]")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_PARTITIONS = re.compile(r"num_partitions=(\d+)")
_OWN_FLOPS = re.compile(r'"cost_estimate":\{"flops":"(\d+)"')
# Instructions whose result aliases all or part of an operand's buffer.
ALIASES = frozenset({"bitcast", "get-tuple-element", "tuple", "optimization-barrier", "domain"})
FREE = frozenset({*ALIASES, "parameter", "constant", "after-all", "partition-id", "replica-id"})
DONE = ("-done", "-update")


class Instruction(hlo.Instruction):
    """An instruction, with its size, its estimated cycles, and its graph node or argument."""

    @cached_property
    def bytes(self) -> int:
        """Return the number of bytes that the result occupies in HBM."""
        return size_of(result_type(self.type, self.opcode))

    @property
    def cycles(self) -> int:
        """Return XLA's estimate of the run time in cycles, or 0 if it has none."""
        cycles = _CYCLES.search(self.attributes)
        return int(cycles[1]) if cycles else 0

    @property
    def node(self) -> int | None:
        """Return the position of this instruction's graph node, or None if it belongs to none."""
        label = _LABEL.search(self.scope)
        return int(label[1]) if label else None

    @property
    def argument(self) -> int | None:
        """Return the argument index of a parameter instruction, or None for other instructions."""
        index = _ARGUMENT.fullmatch(self.scope)
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
    """Return the computations of a program. Raises ValueError if it has no entry computation."""
    lines = hlo.split(text)
    computations = {
        name: list(filter(None, map(Instruction.parsed, each)))
        for name, each in lines.computations.items()
    }
    if not computations.get(lines.entry):
        raise ValueError("tpu: estimate: the compiler's text has no entry computation")
    partitions = _PARTITIONS.search(text.partition("\n")[0])
    return Module(computations, lines.entry, int(partitions[1]) if partitions else 1)


def size_of(type_text: str, *, everywhere: bool = False) -> int:
    """Return how many bytes of HBM a type's arrays occupy, including the padding of their tiles.

    If `everywhere` is set, arrays in other memories, such as a TPU's VMEM, are counted as well.
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
    """Return the element types of a tuple type; for any other type, a list of just that type."""
    if not type_text.startswith("("):
        return [type_text]
    elements, depth = [""], 0
    for character in hlo.inside(type_text):
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

    Arguments are not included, because they are live during the whole program. A result that XLA
    writes into an argument's buffer counts as a temporary here.
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
        if instruction.is_root:
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
