# SPDX-License-Identifier: Apache-2.0
"""Counts how often each computation of a compiled program runs, including those in loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_google.tpu.estimate.schedule import Instruction, Module

_KNOWN = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BODY = re.compile(r"\bbody=%?([^,\s]+)")
_CONDITION = re.compile(r"\bcondition=%?([^,\s]+)")
_INDEX = re.compile(r"\bindex=(\d+)")
_INTEGER = re.compile(r"-?\d+")
_DIRECTION = re.compile(r"\bdirection=(\w+)")


@dataclass(frozen=True)
class Runs:
    """How often each computation runs, and how many loops have an unknown number of iterations.

    The body of such a loop is counted as if it ran once, and so is each branch of a conditional.
    """

    counts: Mapping[str, int]
    unknown: int


def runs(module: Module) -> Runs:
    """Return how many times each computation runs in one run of the program."""
    counts = dict.fromkeys(module.computations, 0)
    counts[module.entry] = 1
    unknown = 0
    # The text lists a computation before its callers, so the reverse order visits callers first.
    for name in reversed(list(module.computations)):
        instructions = module.computations[name]
        for instruction in instructions if counts[name] else ():
            times = counts[name]
            if instruction.opcode == "while":
                trips = _trips(module, instruction, instructions)
                unknown += trips is None
                times *= 1 if trips is None else trips
            for called in dict.fromkeys(instruction.called):
                if called in counts:
                    counts[called] += times
    return Runs(counts, unknown)


def _trips(module: Module, loop: Instruction, caller: Sequence[Instruction]) -> int | None:
    """Return a loop's trip count, from XLA or from constant bounds, or None if it is unknown."""
    known = _KNOWN.search(loop.attributes)
    if known:
        return int(known[1])
    body, condition = _BODY.search(loop.attributes), _CONDITION.search(loop.attributes)
    if body is None or condition is None:
        return None
    bound = _bound(module.computations.get(condition[1], ()))
    if bound is None:
        return None
    index, limit, inclusive = bound
    step = _step(module.computations.get(body[1], ()), index)
    first = _element(caller, loop.operands[0], index)
    if not step or first is None:
        return None
    return max(0, -(-(limit - first + inclusive) // step))


def _bound(condition: Sequence[Instruction]) -> tuple[int, int, bool] | None:
    """Return the counter's index, its limit and whether that is inclusive, or None if unknown."""
    by_name = {i.name: i for i in condition}
    root = next((i for i in condition if i.is_root), None)
    if root is None or root.opcode != "compare" or len(root.operands) != 2:
        return None
    direction = _DIRECTION.search(root.attributes)
    left, right = (by_name.get(name) for name in root.operands)
    limit = _constant(by_name, root.operands[1])
    if direction is None or direction[1] not in ("LT", "LE") or limit is None:
        return None
    if left is None or right is None or left.opcode != "get-tuple-element":
        return None
    index = _INDEX.search(left.attributes)
    return (int(index[1]), limit, direction[1] == "LE") if index else None


def _step(body: Sequence[Instruction], index: int) -> int | None:
    """Return the constant that the body adds to the counter, or None if it is unknown."""
    by_name = {i.name: i for i in body}
    root = next((i for i in body if i.is_root), None)
    if root is None or root.opcode != "tuple" or index >= len(root.operands):
        return None
    added = by_name.get(_source(by_name, root.operands[index]))
    if added is None or added.opcode != "add":
        return None
    for counter, constant in (added.operands, added.operands[::-1]):
        element = by_name.get(_source(by_name, counter))
        position = _INDEX.search(element.attributes) if element else None
        if position and int(position[1]) == index:
            return _constant(by_name, constant)
    return None


def _element(instructions: Sequence[Instruction], name: str, index: int) -> int | None:
    by_name = {i.name: i for i in instructions}
    made = by_name.get(name)
    if made is None or made.opcode != "tuple" or index >= len(made.operands):
        return None
    return _constant(by_name, made.operands[index])


def _constant(by_name: Mapping[str, Instruction], name: str) -> int | None:
    instruction = by_name.get(_source(by_name, name))
    if instruction is None or instruction.opcode != "constant":
        return None
    return int(instruction.literal) if _INTEGER.fullmatch(instruction.literal) else None


def _source(by_name: Mapping[str, Instruction], name: str) -> str:
    """Follow copies and bitcasts back to the instruction that computes the value."""
    while (instruction := by_name.get(name)) and instruction.opcode in ("copy", "bitcast"):
        name = instruction.operands[0]
    return name
