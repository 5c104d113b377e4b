# SPDX-License-Identifier: Apache-2.0
"""The values of a graph's symbols in a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

Symbolic = torch.SymInt | torch.SymFloat | torch.SymBool


class Symbols:
    """The values that the symbols of a graph's inputs have in a call.

    `metas` holds the fake inputs, and `values` the actual inputs.
    """

    def __init__(self, metas: Sequence[Any], values: Sequence[Any]) -> None:
        self._values: dict[Any, int] = {}
        for meta, value in zip(metas, values, strict=True):
            if isinstance(meta, torch.SymInt):
                self._learn(meta, value)
            elif isinstance(meta, torch.Tensor):
                for symbol, number in zip(_numbers(meta), _numbers(value), strict=True):
                    self._learn(symbol, number)

    def concrete(self, value: Any) -> Any:
        """Replace fake tensors with meta tensors, and symbols with numbers. Keep other values.

        Raises NotImplementedError if a size depends on tensor values.
        """
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(
                self.sizes(value.shape),
                self.sizes(value.stride()),
                dtype=value.dtype,
                device="meta",
            )
        if isinstance(value, torch.SymInt):
            return self._number(value)
        if isinstance(value, list | tuple):
            return type(value)(self.concrete(item) for item in value)
        return value

    def layout(self, tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Return the sizes, strides and offset of a fake tensor as numbers.

        Raises NotImplementedError if one of them depends on tensor values.
        """
        (offset,) = self.sizes([tensor.storage_offset()])
        return self.sizes(tensor.shape), self.sizes(tensor.stride()), offset

    def sizes(self, numbers: Iterable[Any]) -> tuple[int, ...]:
        """Return sizes or strides, some of which may be symbols, as plain numbers."""
        return tuple(self._number(n) if isinstance(n, torch.SymInt) else int(n) for n in numbers)

    def _learn(self, symbol: Any, value: Any) -> None:
        if isinstance(symbol, torch.SymInt):
            expression = symbol.node.expr
            if expression.is_Symbol:
                self._values[expression] = int(value)

    def _number(self, symbol: torch.SymInt) -> int:
        value = symbol.node.expr.subs(self._values)
        if value.free_symbols:
            raise NotImplementedError(
                f"tpu: torch.compile: the size {symbol} depends on values. Leave its operator out "
                "of the graph: torch._dynamo.config.capture_dynamic_output_shape_ops = False"
            )
        return int(value)


def is_symbolic(meta: Any) -> bool:
    """Return whether a fake value is a symbol or a tensor whose layout contains symbols."""
    if isinstance(meta, torch.Tensor):
        return any(isinstance(number, torch.SymInt) for number in _numbers(meta))
    return isinstance(meta, Symbolic)


def _numbers(tensor: torch.Tensor) -> list[Any]:
    return [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
