# SPDX-License-Identifier: Apache-2.0
"""Evaluates an AOTAutograd graph on the traced arrays of one program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from torch_google.tpu.compile import control_flow, randomness
from torch_google.tpu.compile.effects import CHECK
from torch_google.tpu.compile.symbols import Symbols
from torch_google.tpu.lowerings.call_order import call_order
from torch_google.tpu.program import Number, constant, lower_op
from torch_google.tpu.program.interpreter import computed, run
from torch_google.tpu.program.lowering_lookup import lowering_of
from torch_google.tpu.program.strided_nodes import STRIDED, evaluate
from torch_google.tpu.runtime import kernel_names


def _named(node: Node, position: int) -> AbstractContextManager[Any]:
    """Name the operator in the program, for profiler traces."""
    name = str(node.target).removeprefix("aten.").removesuffix(".default")
    return jax.named_scope(kernel_names.scope(position, name))


# A function that returns the context manager in which a node is evaluated. It names operators in
# HLO text. It is not part of a program's cache key, so it must not change the program.
NODE_SCOPE: ContextVar[Callable[[Node, int], AbstractContextManager[Any]]] = ContextVar(
    "NODE_SCOPE", default=_named
)


def _unnamed(node: Node, position: int) -> AbstractContextManager[Any]:
    return nullcontext()


class Evaluation:
    """Evaluates a graph once, node by node, using JAX.

    `symbols` holds the values of the graph's symbols in this call. `key` is the JAX random key from
    which the graph's random operators and subgraphs derive their keys, or None if the graph draws
    no random numbers. `nested` is true for a subgraph, whose checks no caller can run.
    """

    def __init__(
        self, graph: GraphModule, symbols: Symbols, key: Any = None, *, nested: bool = False
    ) -> None:
        self.graph = graph
        self.symbols = symbols
        self.key = key
        self._nested = nested
        self.values: dict[Node, Any] = {}

    def run(self, inputs: Sequence[Any]) -> Any:
        """Return the graph's results for these inputs, with the structure of the graph's output."""
        remaining = iter(inputs)
        scope = NODE_SCOPE.get()
        if self._nested and scope is _named:
            scope = _unnamed  # the profiler reports the operator that runs the subgraph
        for position, node in enumerate(self.graph.graph.nodes):
            if node.op == "placeholder":
                self.values[node] = next(remaining)
            elif node.op == "get_attr":
                self.values[node] = _attribute(self.graph, str(node.target))
            elif node.op == "output":
                return self._values_of(node.args[0])
            else:
                with scope(node, position):
                    self.values[node] = self._call(node, position)
        raise ValueError("tpu: a graph of torch.compile has no output")

    def sub(self, graph: GraphModule, inputs: Sequence[Any], key: Any) -> list[Any]:
        """Run a subgraph with the random key `key`, and return its results as a flat list."""
        with call_order(None):
            results = Evaluation(graph, self.symbols, key, nested=True).run(inputs)
        return pytree.tree_leaves(results)

    def fresh(self, position: int) -> Any:
        """Return a random key for the node at this index, or None if the graph has no key."""
        return None if self.key is None else jax.random.fold_in(self.key, position)

    def _values_of(self, value: Any) -> Any:
        return map_arg(value, self.values.__getitem__)

    def _call(self, node: Node, position: int) -> Any:
        target = node.target
        if isinstance(target, HigherOrderOperator):
            return self._higher_order(node, target, position)
        if target is torch.ops.aten.copy_.default:
            return None  # the caller stores the values written to inputs
        if target is CHECK and not self._nested:
            return None  # the caller runs the checks after the program
        if not isinstance(target, OpOverload):
            return computed(target, self._values_of(node.args), self._values_of(node.kwargs))
        if target in _SIZES:
            array, *dimension = self._values_of(node.args)
            return _SIZES[target](array, *dimension)
        if target in STRIDED:
            return evaluate(node, self.values, self.symbols.layout)
        if target is randomness.random_key:
            return jax.random.key_data(self.key)
        return self._operator(node, target, position)

    def _higher_order(self, node: Node, op: HigherOrderOperator, position: int) -> Any:
        function = control_flow.find(op)
        if function is None:
            raise NotImplementedError(
                f"tpu: torch.compile: no lowering for {op.name()}. Leave it out of the "
                "compiled function, for example with torch.compiler.disable"
            )
        return function(self, position, *self._values_of(node.args), **self._values_of(node.kwargs))

    def _operator(self, node: Node, op: OpOverload, position: int) -> Any:
        kwargs = dict(node.kwargs)
        drawn = kwargs.pop(randomness.ARGUMENT, None)
        meta = self.symbols.concrete(node.meta.get("val"))
        lowering = lowering_of(op)
        if lowering is not None and not lowering.on_host(_metas(node.args), _metas(kwargs)):
            key = self._key(drawn, position) if lowering.random else None
            return run(lowering, op, self._values_of(node.args), self._values_of(kwargs), meta, key)
        if lowering is not None:
            raise _depends(op)
        return self._composite(node, op, kwargs, drawn, position)

    def _composite(
        self, node: Node, op: OpOverload, kwargs: Mapping[str, Any], drawn: Any, position: int
    ) -> Any:
        leaves, structure = pytree.tree_flatten(
            (node.args, dict(kwargs)), is_leaf=lambda leaf: isinstance(leaf, Node)
        )
        metas = [self._standin(leaf) for leaf in leaves]
        args, named = pytree.tree_unflatten(metas, structure)
        program = lower_op(op, args, named)
        if program.host_shape:
            raise _depends(op)
        inputs = [
            self._values_of(leaf)
            for leaf, meta in zip(leaves, metas, strict=True)
            if isinstance(meta, torch.Tensor | Number)
        ]
        results = program(inputs, self._key(drawn, position) if program.random else None)
        return results if isinstance(node.meta.get("val"), list | tuple) else results[0]

    def _standin(self, leaf: Any) -> Any:
        if not isinstance(leaf, Node):
            return leaf
        value = self.values[leaf]
        meta = leaf.meta.get("val")
        if isinstance(meta, torch.Tensor):
            return self.symbols.concrete(meta)
        if isinstance(value, jax.Array):
            return Number(0.0 if jnp.issubdtype(value.dtype, jnp.floating) else 0)
        return value

    def _key(self, drawn: Any, position: int) -> Any:
        # If `drawn` is a tuple, it consists of the forward graph's key and the node's index among
        # the joint graph's random nodes.
        if isinstance(drawn, tuple):
            return jax.random.fold_in(jax.random.wrap_key_data(self._values_of(drawn[0])), drawn[1])
        if self.key is None:
            raise NotImplementedError(
                "tpu: a function that flex_attention calls for each score cannot draw random "
                "numbers. Draw a tensor before the call, and index it in the function"
            )
        return jax.random.fold_in(self.key, position)


def _metas(arguments: Any) -> Any:
    return map_arg(arguments, lambda node: node.meta.get("val"))


def _depends(op: OpOverload) -> NotImplementedError:
    return NotImplementedError(
        f"tpu: torch.compile: the shape of the result of {op.name()} depends on values. Leave it out "
        "of the graph: torch._dynamo.config.capture_dynamic_output_shape_ops = False"
    )


def _attribute(graph: GraphModule, target: str) -> Any:
    return constant(operator.attrgetter(target)(graph))


# Operators that return a size, in graphs with symbolic sizes.
_SIZES: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.sym_size.int: lambda array, dimension: array.shape[dimension],
    torch.ops.aten.sym_numel.default: lambda array: array.size,
}
