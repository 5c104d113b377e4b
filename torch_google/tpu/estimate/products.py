# SPDX-License-Identifier: Apache-2.0
"""Counts the flops of a compiled program's matmuls and convolutions, per graph node.

XLA counts the body of a loop only once, regardless of the number of iterations. When XLA shards a
program, it creates loops that multiply by one slice of a matrix while they receive the next slice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch_google.tpu.estimate.schedule import Instruction, Module, shape_of

_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")
_BATCH_GROUPS = re.compile(r"\bbatch_group_count=(\d+)")
_FULL = frozenset({"f32", "f64"})


@dataclass(frozen=True)
class Product:
    """A matmul or convolution: its graph node, the flops of one run, and its number of runs.

    `full` specifies whether an operand is float32 or float64. If so, the number of passes depends
    on the precision.
    """

    node: int | None
    flops: int
    runs: int
    full: bool


def products(module: Module, counts: Mapping[str, int]) -> Iterator[Product]:
    """Yield a program's matmuls and convolutions, given how often each computation runs."""
    for name, instructions in module.computations.items():
        types = {i.name: i.type for i in instructions}
        for instruction in instructions:
            flops = 0
            if counts[name] and instruction.opcode == "dot":
                flops = _dot(instruction, types)
            elif counts[name] and instruction.opcode == "convolution":
                flops = _convolution(instruction, types)
            if flops:
                operands = {shape_of(types.get(o, ""))[0] for o in instruction.operands}
                full = bool(operands & _FULL)
                yield Product(instruction.node, flops, counts[name], full)


def _dot(instruction: Instruction, types: Mapping[str, str]) -> int:
    contracted = _CONTRACTED.search(instruction.attributes)
    left = shape_of(types.get(instruction.operands[0], ""))[1]
    sizes = [int(d) for d in contracted[1].split(",") if d] if contracted else []
    return 2 * math.prod(shape_of(instruction.type)[1]) * math.prod(left[d] for d in sizes)


def _convolution(instruction: Instruction, types: Mapping[str, str]) -> int:
    """Return a convolution's flops, not counting products with padding or with dilation gaps."""
    labels = _LABELS.search(instruction.attributes)
    left, right = (shape_of(types.get(o, ""))[1] for o in instruction.operands[:2])
    result = shape_of(instruction.type)[1]
    if labels is None or not (len(left) == len(labels[1]) and len(right) == len(labels[2])):
        return 0
    groups = _BATCH_GROUPS.search(instruction.attributes)
    window = _window(instruction.attributes)
    positions = 1
    for label in (c for c in labels[3] if c.isdigit()):
        positions *= _positions(
            left[labels[1].index(label)],
            right[labels[2].index(label)],
            result[labels[3].index(label)],
            {key: values[int(label)] for key, values in window.items()},
        )
    features = right[labels[2].index("i")]
    outputs = result[labels[3].index("f")]
    batch = left[labels[1].index("b")] // (int(groups[1]) if groups else 1)
    return 2 * batch * outputs * features * positions


def _window(attributes: str) -> dict[str, list[list[int]]]:
    """Return a window's attributes by name: for each spatial dimension, a list of numbers."""
    window = _WINDOW.search(attributes)
    settings = (part.partition("=") for part in window[1].split()) if window else ()
    return {
        key: [[int(number) for number in part.split("_")] for part in values.split("x")]
        for key, _, values in settings
    }


def _positions(size: int, kernel: int, output: int, window: Mapping[str, list[int]]) -> int:
    """Count the pairs of an output and a kernel element that read an input element.

    The other pairs read padding, or a gap between the elements of a dilated input.
    """
    stride, padding = window.get("stride", [1])[0], window.get("pad", [0])[0]
    holes, dilation = window.get("lhs_dilate", [1])[0], window.get("rhs_dilate", [1])[0]
    if holes == dilation == stride == 1 and padding == 0 and output + kernel - 1 <= size:
        return output * kernel
    end = (size - 1) * holes
    count = 0
    for k in range(kernel):
        # Output element o reads position o * stride + k * dilation - padding for element k of the
        # kernel. With input dilation, only multiples of `holes` have an input element.
        offset = k * dilation - padding
        if holes == 1:
            first = max(0, -(offset // stride))
            last = min(output - 1, (end - offset) // stride)
            count += max(0, last - first + 1)
        else:
            positions = (o * stride + offset for o in range(output))
            count += sum(0 <= at <= end and at % holes == 0 for at in positions)
    return count
