# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes that a compiled program's instructions read from HBM and write to it.

XLA's own count, "bytes accessed", also includes a TPU's VMEM, so it gives no lower bound on time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch_google.tpu.estimate.collectives import COLLECTIVES
from torch_google.tpu.estimate.schedule import (
    ALIASES,
    DONE,
    FREE,
    Instruction,
    Module,
    items,
    result_type,
    size_of,
)

_SLICES = frozenset({"slice", "dynamic-slice", "gather"})
_UPDATES = frozenset({"dynamic-update-slice"})
_VIEWS = frozenset({"bitcast", "reshape", "get-tuple-element"})
# A fusion computes only those elements of these operators' results that are used, so a slice of
# such a result reads only a few bytes.
_LAZY = frozenset({*_VIEWS, "convert", "pad"})
# Control flow itself moves no data. The instructions in the called computations are counted.
_CONTROL = frozenset({"while", "conditional", "call", "async-start"})
_ASYNC = 'custom_call_target="AsyncCollective'
_STARTED_SLICES = frozenset({"slice-start", "dynamic-slice-start"})


def traffic(module: Module, name: str) -> dict[str, int]:
    """Return the HBM bytes that each instruction of a computation reads and writes in one run.

    A slice reads only as many bytes as its result has, and an in-place update writes only the
    update, even inside a fusion. A gather is treated as a slice. An asynchronous copy is counted
    where it starts, and an asynchronous collective of the TPU compiler where it ends.
    """
    instructions = module.computations[name]
    by_name = {i.name: i for i in instructions}
    return {i.name: _moved(module, i, by_name) for i in instructions}


def stepped(module: Module) -> Iterator[str]:
    """Yield the computations whose instructions run one after another.

    These are the entry computation and those that control flow calls, such as the bodies of loops.
    All other computations, such as the bodies of fusions, are part of a single instruction.
    """
    waiting, seen = [module.entry], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in module.computations:
            continue
        seen.add(name)
        yield name
        for instruction in module.computations[name]:
            if instruction.opcode in _CONTROL:
                waiting += instruction.called


def _moved(module: Module, it: Instruction, by_name: Mapping[str, Instruction]) -> int:
    if it.opcode in FREE or it.opcode in _CONTROL or it.opcode.endswith(DONE):
        return 0
    operands = [by_name[name] for name in it.operands if name in by_name]
    if it.opcode in _SLICES or it.opcode in _STARTED_SLICES:
        source = min(_result(operands[0]), _everywhere(it)) if operands else 0
        return it.bytes + source + sum(map(_result, operands[1:]))
    if it.opcode in _UPDATES:
        written = min(_everywhere(operands[1]), it.bytes)
        return written + sum(map(_result, operands[1:]))
    callee = module.computations.get(it.called[0]) if it.called else None
    if it.opcode != "fusion" or not callee:
        return it.bytes + sum(map(_result, operands))
    read = sum(
        min(_result(by_name[name]), _read(module, callee, index))
        for index, name in enumerate(it.operands)
        if name in by_name
    )
    return read + _written(module, callee, it.type)


def _result(instruction: Instruction) -> int:
    return 0 if instruction.opcode == "constant" else instruction.bytes


def _everywhere(instruction: Instruction) -> int:
    return size_of(result_type(instruction.type, instruction.opcode), everywhere=True)


def _read(module: Module, fused: Sequence[Instruction], index: int) -> int:
    """Return how many bytes of the parameter at `index` a fused computation reads."""
    start = next(
        (i for i in fused if i.opcode == "parameter" and i.literal == str(index)),
        None,
    )
    if start is None:
        return 0
    whole, read = _everywhere(start), 0
    names = {start.name}
    for user in fused:  # operands come before their users
        if user.opcode in _LAZY and not user.is_root and user.operands[0] in names:
            names.add(user.name)
    for user in fused:
        places = [p for p, name in enumerate(user.operands) if name in names]
        if not places or user.name in names:
            continue
        if user.opcode in _SLICES and places == [0]:
            read += _everywhere(user)
        elif user.opcode in _UPDATES and places == [0]:
            continue  # the update is in place, so the rest of the operand is not read
        elif user.opcode in COLLECTIVES or _ASYNC in user.attributes:
            continue  # this fusion only overlaps with the collective
        elif user.opcode == "fusion" and user.called and user.called[0] in module.computations:
            inner = module.computations[user.called[0]]
            read += sum(_read(module, inner, place) for place in places)
        elif user.opcode != "tuple":
            return whole
    return min(whole, read)


def _written(module: Module, fused: Sequence[Instruction], type_text: str) -> int:
    """Return the number of HBM bytes written by a fused computation with this result type."""
    by_name = {i.name: i for i in fused}
    root = next((i for i in fused if i.is_root), None)
    if root is None:
        return size_of(type_text)
    if root.opcode == "tuple":
        parts = zip(root.operands, items(type_text), strict=False)
        return sum(_written_by(module, by_name, name, text) for name, text in parts)
    return _written_by(module, by_name, root.name, type_text)


def _written_by(module: Module, by_name: Mapping[str, Instruction], name: str, text: str) -> int:
    instruction = by_name.get(name)
    while instruction and instruction.opcode in _VIEWS and instruction.opcode in ALIASES:
        instruction = by_name.get(instruction.operands[0])
    whole = size_of(text)
    if instruction and f'{_ASYNC}Start"' in instruction.attributes:
        return 0
    if instruction is None or instruction.opcode == "parameter":
        return 0 if instruction else whole  # a parameter is passed through
    if instruction.opcode in _UPDATES:
        update = by_name.get(instruction.operands[1])
        return min(whole, _everywhere(update)) if update else whole
    if instruction.opcode == "fusion" and instruction.called:
        inner = module.computations.get(instruction.called[0])
        return min(whole, _written(module, inner, instruction.type) or whole) if inner else whole
    return whole
