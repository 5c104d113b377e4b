# SPDX-License-Identifier: Apache-2.0
"""Counts a compiled program's flops, HBM traffic and sent bytes, per device and per operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from torch_google.tpu.estimate.capture import Operator
from torch_google.tpu.estimate.chips import PASSES, Chip
from torch_google.tpu.estimate.collectives import Collectives, collectives
from torch_google.tpu.estimate.loops import Runs, runs
from torch_google.tpu.estimate.products import products
from torch_google.tpu.estimate.report import Cost
from torch_google.tpu.estimate.schedule import (
    ALIASES,
    DONE,
    Instruction,
    Module,
    kernel_flops,
    module,
)
from torch_google.tpu.estimate.traffic import stepped, traffic

_COPIES = frozenset({*ALIASES, "copy", "slice", "transpose", "reshape"})


@dataclass
class Flops:
    """Floating-point operations: `full` in float32 and float64 matmuls, and `half` in the rest.

    Convolutions count as matmuls.
    """

    half: float = 0.0
    full: float = 0.0

    def add(self, flops: float, full: bool) -> None:
        """Add the flops of a matmul or convolution."""
        if full:
            self.full += flops
        else:
            self.half += flops

    @property
    def total(self) -> float:
        """Return the number of operations."""
        return self.half + self.full

    def seconds(self, peaks: Chip) -> float:
        """Return the time in seconds at the peak rate. A float32 matmul may take several passes."""
        passes = PASSES[str(torch.tpu.get_precision())]
        return (self.half + self.full * passes) / peaks.device_flops


@dataclass(frozen=True)
class Counted:
    """One device's flops, HBM bytes and collectives. Every iteration of a loop is counted."""

    module: Module
    runs: Runs
    flops: Flops
    by_node: Mapping[int | None, Flops]
    collectives: Mapping[str, Collectives]
    moved: Mapping[str, Mapping[str, int]] = field(repr=False)

    @property
    def bytes(self) -> int:
        """Return the HBM traffic in bytes."""
        each = ((name, sum(moved.values())) for name, moved in self.moved.items())
        return sum(moved * self.runs.counts[name] for name, moved in each)

    @property
    def flops_of_nodes(self) -> dict[int, float]:
        """Return the flops of each graph node's matmuls and convolutions."""
        return {node: own.total for node, own in self.by_node.items() if node is not None}

    @property
    def sent(self) -> int:
        """Return the number of bytes that a device sends to other devices."""
        return sum(each.sent for each in self.collectives.values())


def count(
    text: str, operators: Mapping[int, Operator], devices: int, counted_by_xla: float
) -> Counted:
    """Return the counts of a compiled program. `counted_by_xla` is XLA's count of its flops.

    XLA's count includes elementwise operators, but it counts the body of a loop only once, and uses
    the flops that a Pallas kernel declares. This function corrects the count for matmuls in loops,
    and for kernels whose operator has a flop formula in torch.
    """
    parsed = module(text)
    run = runs(parsed)
    flops, by_node = Flops(counted_by_xla), dict[int | None, Flops]()
    for product in products(parsed, run.counts):
        by_node.setdefault(product.node, Flops()).add(product.flops * product.runs, product.full)
        flops.half -= product.flops
        flops.add(product.flops * product.runs, product.full)
    for node, declared in kernel_flops(text).items():
        operator = operators.get(node)
        if operator is not None and operator.flops:
            flops.half -= declared
            flops.add(operator.flops / devices, operator.full)
            by_node[node] = Flops()
            by_node[node].add(operator.flops / devices, operator.full)
    return Counted(
        parsed,
        run,
        flops,
        by_node,
        collectives(parsed, run.counts),
        {name: traffic(parsed, name) for name in stepped(parsed)},
    )


def operator_costs(
    counted: Counted, operators: Mapping[int, Operator], devices: int, peaks: Chip
) -> tuple[Cost, ...]:
    """Return the cost of each operator of the graph, slowest first."""
    rows: dict[tuple[str, str, str], tuple[Flops, list[int]]] = {}

    def row(node: int | None, opcode: str) -> tuple[Flops, list[int]]:
        operator = operators.get(-1 if node is None else node)
        key = (
            (operator.module, operator.op, operator.line)
            if operator
            else ("", f"({opcode}, by XLA)", "")
        )
        return rows.setdefault(key, (Flops(), [0, 0]))

    for position, operator in operators.items():
        own = counted.by_node.get(position)
        if own:
            row(position, "")[0].half += own.half
            row(position, "")[0].full += own.full
        elif operator.flops:  # XLA computes the product in another way
            row(position, "")[0].add(operator.flops / devices, operator.full)
    for name, moved in counted.moved.items():
        instructions, times = counted.module.computations[name], counted.runs.counts[name]
        users = _users(instructions)
        for instruction in instructions:
            if moved[instruction.name] or instruction.cycles:
                node = _node(instruction, users)
                _, numbers = row(node, instruction.opcode.removesuffix("-start"))
                numbers[0] += moved[instruction.name] * times
                numbers[1] += instruction.cycles * times
    costs = []
    for (path, op, line), (flops, (bytes_, cycles)) in rows.items():
        computing = flops.seconds(peaks)
        seconds = max(computing, bytes_ / peaks.device_bandwidth)
        utilisation = computing / seconds if seconds else 0.0
        costs.append(Cost(path, op, line, flops.total, bytes_, seconds, cycles, utilisation))
    return tuple(sorted(costs, key=lambda cost: (-cost.seconds, cost.module, cost.op)))


def is_copy(instruction: Instruction) -> bool:
    """Return whether an instruction only moves its first operand, or part of it."""
    return instruction.opcode in _COPIES or instruction.opcode.endswith(("-start", *DONE))


def _users(instructions: Iterable[Instruction]) -> dict[str, Instruction]:
    """Map the name of each value to the first instruction that uses it."""
    users: dict[str, Instruction] = {}
    for instruction in instructions:
        for operand in instruction.operands:
            users.setdefault(operand, instruction)
    return users


def _node(instruction: Instruction, users: Mapping[str, Instruction]) -> int | None:
    """Return the graph node to which an instruction is attributed, or None if there is none.

    The copies that XLA adds, such as prefetches, have no node. A copy is attributed to the node of
    the first instruction that uses it.
    """
    current: Instruction | None = instruction
    while current is not None and current.node is None:
        current = users.get(current.name) if is_copy(current) else None
    return current.node if current else None
