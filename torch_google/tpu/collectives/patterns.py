# SPDX-License-Identifier: Apache-2.0
"""Maps each torch.distributed collective to a flat collective; packs and unpacks its tensors.

The tensors that ranks pass to one collective may differ in shape and strides, and sometimes in
size. A flat collective needs flat arrays of the same length on all ranks. So each rank packs its
inputs into flat arrays, and unpacks the results into the storages of its outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import torch

from torch_google.tpu import dtypes
from torch_google.tpu.collectives.flat_collectives import FlatCollective
from torch_google.tpu.runtime import strides
from torch_google.tpu.runtime.strides import View


@dataclass(frozen=True)
class Target:
    """A storage that a collective writes to. `shape` and `dtype` describe the storage's array."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    keeps: bool  # whether the collective leaves some elements unchanged


@dataclass(frozen=True)
class Signature:
    """One rank's call to a collective, without the tensors' values.

    `inputs` holds the shape and dtype of each input's array. `outputs` holds a pair for each
    output: the index in `targets` of its storage, and its view of that storage. `factors` holds the
    shape of PREMUL_SUM's factor, and is empty for other reductions. If the chunks that ranks send
    to each other may differ in size, `largest` is the number of elements in the largest chunk.
    """

    name: str
    collective: FlatCollective
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    views: tuple[View, ...]
    targets: tuple[Target, ...]
    outputs: tuple[tuple[int, View], ...]
    splits: tuple[tuple[int, ...], tuple[int, ...]]
    factors: tuple[tuple[int, ...], ...]
    largest: int

    def pack(self, arrays: Sequence[Any], factor: Any = None) -> list[Any]:
        """Return the flat arrays to pass to `collective`, leaving out empty ones."""
        values = [strides.read(*each) for each in zip(arrays, self.views, strict=True)]
        if factor is not None:
            values = [_multiplied(value, factor) for value in values]
        flat = [value.reshape(-1) for value in values]
        return [array for array in _PATTERNS[self.name].pack(self, flat) if array.size]

    def unpack(self, results: Sequence[Any], olds: Sequence[Any]) -> list[Any]:
        """Return the new array of each target.

        `olds` holds the old arrays of the targets in which some elements stay unchanged.
        """
        old = iter(olds)
        arrays = [
            next(old) if target.keeps else jnp.zeros(target.shape, dtypes.to_jax(target.dtype))
            for target in self.targets
        ]
        if not any(_size(view) for _, view in self.outputs):
            return arrays
        values = _PATTERNS[self.name].unpack(self, results)
        for (index, view), value in zip(self.outputs, values, strict=True):
            arrays[index] = strides.write(arrays[index], value.reshape(view.sizes), view)
        return arrays


@dataclass(frozen=True)
class _Pattern:
    flat: str
    pack: Callable[[Signature, list[Any]], list[Any]]
    unpack: Callable[[Signature, Sequence[Any]], list[Any]]


def flat_name(name: str) -> str:
    """Return the name of the FlatCollective that implements a torch.distributed collective."""
    return _PATTERNS[name].flat


def _each(_: Signature, values: list[Any]) -> list[Any]:
    return values


def _each_result(call: Signature, results: Sequence[Any]) -> list[Any]:
    # `results` contains nothing for empty outputs.
    remaining = iter(results)
    return [
        next(remaining) if _size(view) else jnp.zeros(0, dtypes.to_jax(view.dtype))
        for _, view in call.outputs
    ]


def _longest(call: Signature, values: list[Any]) -> list[Any]:
    """Pad the input to the length of the longest output."""
    return [_padded(values[0], max(_size(view) for _, view in call.outputs))]


def _rows(call: Signature, results: Sequence[Any]) -> list[Any]:
    """Split the result into one chunk per rank, and remove the padding of each chunk."""
    if not call.outputs:
        return []
    rows = results[0].reshape(call.collective.ranks, -1)
    return [row[: _size(view)] for row, (_, view) in zip(rows, call.outputs, strict=True)]


def _joined(call: Signature, values: list[Any]) -> list[Any]:
    """Concatenate the chunks for all ranks. Only the root has chunks; other ranks return zeros."""
    if values:
        return [jnp.concatenate(values)]
    (_, view), *_ = call.outputs
    return [jnp.zeros(call.collective.ranks * _size(view), dtypes.to_jax(view.dtype))]


def _joined_padded(_: Signature, values: list[Any]) -> list[Any]:
    longest = max(value.size for value in values)
    return [jnp.concatenate([_padded(value, longest) for value in values])]


def _own(call: Signature, results: Sequence[Any]) -> list[Any]:
    return [results[0][: _size(call.outputs[0][1])]]


def _parts(call: Signature, values: list[Any]) -> list[Any]:
    return [jnp.concatenate([_padded(value, call.largest) for value in values])]


def _split(call: Signature, values: list[Any]) -> list[Any]:
    sizes = _part_sizes(call.splits[0], call.views[0], call.collective.ranks)
    ends = [sum(sizes[:count]) for count in range(1, len(sizes))]
    return _parts(call, jnp.split(values[0], ends))


def _unsplit(call: Signature, results: Sequence[Any]) -> list[Any]:
    sizes = _part_sizes(call.splits[1], call.outputs[0][1], call.collective.ranks)
    rows = results[0].reshape(call.collective.ranks, -1)
    return [jnp.concatenate([row[:size] for row, size in zip(rows, sizes, strict=True)])]


# The keys are the names that csrc/backend.cpp gives to collectives.
_PATTERNS: dict[str, _Pattern] = {
    "all_gather": _Pattern("gather", _longest, _rows),
    "all_gather_coalesced": _Pattern("gather", _longest, _rows),
    "all_gather_into_tensor": _Pattern("gather", _each, _each_result),
    "all_gather_into_tensor_coalesced": _Pattern("gather", _each, _each_result),
    "all_reduce": _Pattern("reduce", _each, _each_result),
    "all_reduce_coalesced": _Pattern("reduce", _each, _each_result),
    "all_to_all": _Pattern("exchange", _parts, _rows),
    "all_to_all_single": _Pattern("exchange", _split, _unsplit),
    "broadcast": _Pattern("broadcast", _each, _each_result),
    "gather": _Pattern("gather", _each, _rows),
    "reduce": _Pattern("reduce", _each, _each_result),
    "reduce_scatter": _Pattern("reduce_scatter", _joined_padded, _own),
    "reduce_scatter_tensor": _Pattern("reduce_scatter", _each, _each_result),
    "reduce_scatter_tensor_coalesced": _Pattern("reduce_scatter", _each, _each_result),
    "scatter": _Pattern("scatter", _joined, _each_result),
}


def _multiplied(value: Any, factor: Any) -> Any:
    # Multiply half-precision numbers as float32, as torch does.
    wide = jnp.promote_types(value.dtype, jnp.float32)
    return (value.astype(wide) * factor.astype(wide)).astype(value.dtype)


def _size(view: View) -> int:
    return math.prod(view.sizes)


def _padded(value: Any, length: int) -> Any:
    return jnp.pad(value, (0, length - value.size))


def _part_sizes(splits: Sequence[int], view: View, ranks: int) -> list[int]:
    """Return the number of elements in each rank's chunk: all equal if `splits` is empty."""
    if not splits:
        return [_size(view) // ranks] * ranks
    rows = view.sizes[0]
    return [split * (_size(view) // rows) if rows else 0 for split in splits]
