# SPDX-License-Identifier: Apache-2.0
"""Finds a compiled program's collectives, and counts the bytes that a device sends for them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from torch_google.tpu.estimate.schedule import Instruction, Module, result_type, size_of

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_CHANNEL = re.compile(r"\bchannel_id=(\d+)")
_LISTED = re.compile(r"\breplica_groups=\{\{([\d,]+)\}")
_IOTA = re.compile(r"\breplica_groups=\[\d+,(\d+)\]<=")
_MESH = re.compile(r"\breplica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}")
_AXIS = re.compile(r"'([^']+)'=(\d+)")
# If the result of an all-reduce is sliced, the TPU compiler fuses the all-reduce and the slice into
# a computation whose name starts with this.
_REDUCE_SCATTER = "all-reduce-scatter"


@dataclass(frozen=True)
class Collectives:
    """All collectives of one kind that a program runs, counted on one device.

    `bytes` is the total size of their results. `sent` is the number of bytes that a device sends if
    it uses a ring algorithm, which is the minimum for any algorithm.
    """

    count: int
    bytes: int
    sent: int


def collectives(module: Module, counts: Mapping[str, int]) -> dict[str, Collectives]:
    """Return a program's collectives by kind. `counts` maps each computation to its number of runs.

    Every fusion that overlaps with an asynchronous collective contains a copy of the collective's
    instruction, with the same channel. All of these copies are counted as one collective.
    """
    found: dict[str, tuple[str, Collectives]] = {}
    for name, instructions in module.computations.items():
        for instruction in instructions if counts[name] else ():
            kind = instruction.opcode.removesuffix("-start")
            if kind not in COLLECTIVES:
                continue
            channel = _CHANNEL.search(instruction.attributes)
            key = f"channel {channel[1]}" if channel else instruction.name
            one = _one(instruction, kind, name, module.partitions)
            times = counts[name]
            if key in found:
                # Among the copies, the one that starts the collective runs the fewest times.
                times = min(times, found[key][1].count)
            kind, size, sent = one
            found[key] = kind, Collectives(times, times * size, times * sent)
    total: dict[str, Collectives] = {}
    for kind, each in found.values():
        before = total.get(kind, Collectives(0, 0, 0))
        total[kind] = Collectives(
            before.count + each.count, before.bytes + each.bytes, before.sent + each.sent
        )
    return total


def _one(instruction: Instruction, kind: str, name: str, devices: int) -> tuple[str, int, int]:
    """Return the kind of a collective, the size of its result, and the bytes that it sends."""
    group = _group(instruction.attributes, devices)
    size = size_of(result_type(instruction.type, instruction.opcode), everywhere=True)
    if kind == "all-reduce" and name.startswith(_REDUCE_SCATTER):
        kind, size = "reduce-scatter", size // group
    if kind == "collective-permute":
        return kind, size, size
    if kind == "reduce-scatter":
        return kind, size, size * (group - 1)
    passes = 2 if kind == "all-reduce" else 1
    return kind, size, passes * size * (group - 1) // group


def _group(attributes: str, devices: int) -> int:
    """Return the number of devices in each replica group of a collective."""
    listed, iota, mesh = (kind.search(attributes) for kind in (_LISTED, _IOTA, _MESH))
    if listed:
        return listed[1].count(",") + 1
    if iota:
        return int(iota[1])
    if mesh:
        sizes = {axis: int(size) for axis, size in _AXIS.findall(mesh[1])}
        return math.prod(sizes[axis] for axis in re.findall(r"'([^']+)'", mesh[2]))
    return devices
