# SPDX-License-Identifier: Apache-2.0
"""A graph of AOTAutograd's, compiled for the shapes that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from torch_google.tpu.compile.carrier import carrier_of
from torch_google.tpu.program import Program, lower_graph
from torch_google.tpu.program.trace import as_meta, trace_function


@dataclass(frozen=True)
class _Version:
    program: Program
    run: Callable[..., Any]


class Compiled:
    """Call it with a list of arguments, which it empties: what is dead may be freed.

    A graph with symbolic sizes has one program for each set of sizes. Other arguments than tensors
    (sizes, numbers) are constants of a program.
    """

    def __init__(self, graph: GraphModule, devices: Collection[torch.device]) -> None:
        if len(devices) > 1:
            listed = ", ".join(sorted(str(device) for device in devices))
            raise NotImplementedError(
                f"tpu: one program for tensors of {listed}. Move them to one device"
            )
        # AOTAutograd then passes one list, and keeps no reference of its own. It asks the instance.
        self._boxed_call = True
        self._graph = graph
        self._device = next(iter(devices), torch.device("cpu"))
        self._versions: dict[tuple[Any, ...], _Version] = {}

    def __call__(self, args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        carrier = carrier_of(self._device)
        version = self._version(given)
        arrays = [carrier.take(value) for value in given if isinstance(value, torch.Tensor)]
        key = carrier.key(self._device) if version.program.random else None
        given.clear()
        results = version.run(arrays, key)
        return [
            carrier.give(result, meta, self._device) if isinstance(meta, torch.Tensor) else result
            for result, meta in zip(results, version.program.metas, strict=True)
        ]

    @property
    def versions(self) -> int:
        """How many programs there are."""
        return len(self._versions)

    def _version(self, given: Sequence[Any]) -> _Version:
        key = tuple(_described(value) for value in given)
        if key not in self._versions:
            program = lower_for(self._graph, given, "torch.compile")
            self._versions[key] = _Version(program, jax.jit(program))
        return self._versions[key]


def lower_for(function: Callable[..., Any], given: Sequence[Any], name: str) -> Program:
    """Return the program of a function for such arguments; its inputs are the tensors.

    Raises NotImplementedError for what nothing lowers, and where a shape depends on values.
    """
    tensors = [i for i, value in enumerate(given) if isinstance(value, torch.Tensor)]

    def call(*values: Any) -> list[Any]:
        filled = list(given)
        for i, value in zip(tensors, values, strict=True):
            filled[i] = value
        return pytree.tree_leaves(function(*filled))

    program = lower_graph(trace_function(call, [as_meta(given[i]) for i in tensors], name))
    if program.host_shape:
        raise NotImplementedError(
            f"tpu: {name}: the shape of a result depends on values. Leave it out of the graph"
        )
    return program


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride()
    return type(value), value
