# SPDX-License-Identifier: Apache-2.0
"""The inputs, outputs and input mutations of an AOTAutograd graph, independent of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_google.tpu import dtypes, lowerings
from torch_google.tpu.compile.device_adapter import DeviceAdapter, adapter_of
from torch_google.tpu.compile.effects import checks_of, run_checks
from torch_google.tpu.compile.randomness import ARGUMENT, is_random, random_key
from torch_google.tpu.compile.symbols import is_symbolic
from torch_google.tpu.shardings import ONE_DEVICE

_HOST = torch.device("cpu")


class GraphSignature:
    """The inputs, outputs and input mutations of a graph.

    `written` maps the indices of mutated inputs to the nodes that compute their new values.
    `outputs` lists the results in order, each as a node or, for a constant, as its value. `checks`
    lists the nodes that check values, which the caller runs after the program. In an `inference`
    graph, outputs may share storage, because AOTAutograd leaves aliasing to the backend.
    `default_dtype` is the default dtype that torch had when the graph was traced.
    """

    def __init__(self, graph: GraphModule, *, inference: bool = False) -> None:
        self.graph = graph
        # Dynamo's guards and the keys of AOTAutograd's cache include this dtype, so the graph is
        # used only while torch's default dtype is the same.
        self.default_dtype = dtypes.default_dtype()
        nodes = list(graph.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.metas = [node.meta.get("val") for node in self.inputs]
        self._places = places = {node: index for index, node in enumerate(self.inputs)}
        self.written: dict[int, Node] = {}
        self._copies: dict[Node, int] = {}
        for node in nodes:
            if node.target is torch.ops.aten.copy_.default and node.args[0] in places:
                self.written[places[node.args[0]]] = node.args[1]
                self._copies[node] = places[node.args[0]]
        self.outputs: list[Any] = list(nodes[-1].args[0])
        self.checks = checks_of(graph)
        # Append to the outputs the values that the checks read. `check` removes them again.
        self.outputs += [node.args[0] for node in self.checks]
        self.device = _device(graph)
        self.random = any(draws(module) for module in _modules(graph))
        self.collective = any(lowerings.is_collective(node.target) for node in nodes)
        self.symbolic = any(is_symbolic(meta) for meta in self.metas)
        self._adapters: list[DeviceAdapter | None] | None = None
        self.tensors = [isinstance(meta, torch.Tensor) for meta in self.metas]
        # The indices of the tensors with symbolic sizes, and of all other tensors.
        self.sized = [p for p, m in enumerate(self.metas) if self.tensors[p] and _is_sized(m)]
        self.unsized = [p for p, held in enumerate(self.tensors) if held and p not in self.sized]
        # Whether all inputs are tensors on the device, which is the usual case.
        self._plain = all(
            isinstance(meta, torch.Tensor) and meta.device == self.device for meta in self.metas
        )
        self.numbers = self._numbers(nodes)
        self._families = _families(nodes, self.outputs) if inference else {}

    def adapter(self) -> DeviceAdapter:
        """Return the adapter for the device that the graph runs on."""
        return adapter_of(self.device)

    @property
    def adapters(self) -> list[DeviceAdapter | None]:
        """Return the adapter for each input, or None for inputs that are not tensors."""
        if self._adapters is None:
            self._adapters = [
                adapter_of(meta.device) if isinstance(meta, torch.Tensor) else None
                for meta in self.metas
            ]
        return self._adapters

    def arrays(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments, replacing each tensor with its storage's array."""
        if self._plain:
            return self.adapter().take(args)
        return [
            value if own is None else own.take([value])[0]
            for value, own in zip(args, self.adapters, strict=True)
        ]

    def shardings(self, args: Sequence[Any]) -> Sequence[int]:
        """Return each argument's sharding index (see shardings.py), or () if none is sharded."""
        if self._plain:
            return self.adapter().shardings(args)
        own = self.adapter()
        places = [index for index, adapter in enumerate(self.adapters) if adapter is own]
        numbers = dict(zip(places, own.shardings([args[index] for index in places]), strict=False))
        return [numbers.get(index, ONE_DEVICE) for index in range(len(args))] if numbers else ()

    def shared_writes(self, args: Sequence[Any]) -> list[int]:
        """Return the written arguments that share a storage with an earlier written one."""
        if len(self.written) < 2:
            return []
        seen: set[int] = set()
        shared = []
        for index in self.written:
            storage = args[index].untyped_storage()._cdata
            if storage in seen:
                shared.append(index)
            seen.add(storage)
        return shared

    def sources(self) -> dict[Any, tuple[int, int | None]]:
        """Map each symbol to the index of an argument and, for a tensor, of a dimension."""
        sources: dict[Any, tuple[int, int | None]] = {}
        for index, meta in enumerate(self.metas):
            if isinstance(meta, torch.SymInt) and meta.node.expr.is_Symbol:
                sources.setdefault(meta.node.expr, (index, None))
        for index in self.sized:
            for axis, size in enumerate(self.metas[index].shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    sources.setdefault(size.node.expr, (index, axis))
        return sources

    def check(self, results: list[Any]) -> list[Any]:
        """Run the checks on the values at the end of `results`, and return the results before them.

        Raises torch's error if a check fails.
        """
        if not self.checks:
            return results
        count = len(results) - len(self.checks)
        run_checks(self.checks, results[count:])
        return results[:count]

    def argument(self, node: Node) -> int | None:
        """Return the index of the argument whose final value is the output `node`.

        Return None if there is no such argument.
        """
        index = self._places.get(node)
        if index is not None and index in self.written:
            return None  # the output is the value before the mutation
        return self._copies.get(node, index)

    def family(self, node: Node) -> list[Node]:
        """Return the nodes that share storage with an output, or an empty list if none do.

        The first node in the list created the storage and determines the storage's dtype.
        """
        return self._families.get(node, [])

    def _numbers(self, nodes: Sequence[Node]) -> frozenset[int]:
        """Return the indices of the scalar inputs that need not be constants in a program."""
        fixed: set[Any] = set()
        for node in nodes:
            meta = node.meta.get("val")
            if isinstance(meta, torch.Tensor):
                fixed |= _symbols((*meta.shape, *meta.stride()))
            elif node in self.outputs and node.op != "placeholder":
                fixed |= _symbols((meta,))
            if lowerings.is_collective(node.target):
                # Scalars passed to a collective, such as the number of elements per rank, must be
                # constants in the program.
                metas = (each.meta.get("val") for each in node.all_input_nodes)
                fixed |= _symbols(metas)
        return frozenset(
            index
            for index, meta in enumerate(self.metas)
            if isinstance(meta, torch.SymInt | torch.SymFloat) and not _symbols((meta,)) & fixed
        )


def _is_sized(meta: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in meta.shape)


def _symbols(values: Iterable[Any]) -> set[Any]:
    return {
        symbol
        for value in values
        if isinstance(value, torch.SymInt | torch.SymFloat)
        for symbol in value.node.expr.free_symbols
    }


def _families(nodes: Sequence[Node], outputs: Sequence[Any]) -> dict[Node, list[Node]]:
    first: dict[int, Node] = {}
    for node in nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            first.setdefault(_storage(node), node)
    by_storage: dict[int, list[Node]] = {}
    for output in dict.fromkeys(o for o in outputs if isinstance(o, Node)):
        if isinstance(output.meta.get("val"), torch.Tensor) and output.op != "placeholder":
            by_storage.setdefault(_storage(output), []).append(output)
    families: dict[Node, list[Node]] = {}
    for storage, sharing in by_storage.items():
        if len(sharing) > 1:
            owner = first[storage]
            family = [owner, *(node for node in sharing if _is_part(node, owner))]
            families |= dict.fromkeys((owner, *sharing), family)
    return families


def _is_part(node: Node, owner: Node) -> bool:
    """Return whether a node's values are stored unchanged in the storage that `owner` created."""
    meta = node.meta["val"]
    same = node is not owner and meta.dtype == owner.meta["val"].dtype
    return same and not meta.is_conj() and not meta.is_neg()


def _storage(node: Node) -> int:
    return node.meta["val"].untyped_storage()._cdata


def draws(graph: GraphModule) -> bool:
    """Return whether a graph needs a random key."""
    return any(
        node.target is random_key or (is_random(node) and ARGUMENT not in node.kwargs)
        for node in graph.graph.nodes
    )


def _modules(graph: GraphModule) -> Iterator[GraphModule]:
    return (module for module in graph.modules() if isinstance(module, GraphModule))


def _device(graph: GraphModule) -> torch.device:
    devices = {
        leaf.device
        for node in graph.graph.nodes
        for leaf in _leaves(node.meta.get("val"))
        if isinstance(leaf, torch.Tensor)
    }
    listed = sorted(devices - {_HOST}, key=str)
    if len(listed) > 1:
        raise NotImplementedError(
            f"tpu: one program for tensors of {', '.join(map(str, listed))}. "
            "Move them to one device"
        )
    return listed[0] if listed else _HOST


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
