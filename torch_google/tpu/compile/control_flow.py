# SPDX-License-Identifier: Apache-2.0
"""Lowerings of torch's higher-order operators, such as cond, while_loop and scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention, flex_attention_backward
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule

from torch_google.tpu.compile import flex_attention as flex
from torch_google.tpu.release import V2_6


class SubgraphRunner(Protocol):
    """The methods of `Evaluation` that the lowerings of higher-order operators use."""

    def sub(self, graph: GraphModule, inputs: Sequence[Any], key: Any) -> list[Any]:
        """Run a subgraph with the random key `key`, and return its results as a flat list."""

    def fresh(self, position: int) -> Any:
        """Return a random key for the node at this index, or None if the graph has no key."""


# A lowering, called with the SubgraphRunner, the node's index, and the operator's arguments.
_Function = Callable[..., Any]


def find(op: HigherOrderOperator) -> _Function | None:
    """Return the lowering of a higher-order operator, or None if there is none."""
    return _TABLE.get(op)


def _cond(
    runner: SubgraphRunner,
    position: int,
    pred: Any,
    true_graph: GraphModule,
    false_graph: GraphModule,
    operands: Sequence[Any] = (),
) -> list[Any]:
    key = runner.fresh(position)
    if isinstance(pred, bool):
        return runner.sub(true_graph if pred else false_graph, operands, key)
    arrays, fill = _split(operands)

    def branch(graph: GraphModule) -> Callable[..., list[Any]]:
        return lambda values: runner.sub(graph, fill(values), key)

    return list(jax.lax.cond(jnp.squeeze(pred), branch(true_graph), branch(false_graph), arrays))


def _while_loop(
    runner: SubgraphRunner,
    position: int,
    cond_graph: GraphModule,
    body_graph: GraphModule,
    carried: Sequence[Any],
    additional: Sequence[Any] = (),
) -> list[Any]:
    key = runner.fresh(position)
    initial = [jnp.asarray(value) for value in carried]

    def going(state: Any) -> Any:
        values, turn = state
        return jnp.squeeze(runner.sub(cond_graph, [*values, *additional], _turn(key, turn))[0])

    def step(state: Any) -> Any:
        values, turn = state
        new = runner.sub(body_graph, [*values, *additional], _turn(key, turn))
        return _like(new, initial), turn + 1

    values, _ = jax.lax.while_loop(going, step, (initial, jnp.int32(0)))
    return list(values)


def _scan(
    runner: SubgraphRunner,
    position: int,
    combine: GraphModule,
    init: Sequence[Any],
    xs: Sequence[Any],
    additional: Sequence[Any] = (),
    *,
    reverse: bool = False,
) -> list[Any]:
    key = runner.fresh(position)
    count = len(init)

    def step(state: Any, row: Any) -> Any:
        values, turn = state
        outputs = runner.sub(combine, [*values, *row, *additional], _turn(key, turn))
        return (_like(outputs[:count], init), turn + 1), outputs[count:]

    start = (list(init), jnp.int32(0))
    (values, _), rows = jax.lax.scan(step, start, list(xs), reverse=reverse)
    return [*values, *rows]


def _scan_along(
    runner: SubgraphRunner,
    position: int,
    combine: GraphModule,
    init: Sequence[Any],
    xs: Sequence[Any],
    dim: int,
    reverse: bool,
    additional: Sequence[Any],
) -> list[Any]:
    """Lower the scan of torch v2.6, which accepts a dimension and a direction.

    In later releases, the operator always scans dimension 0 forward.
    """
    moved = [jnp.moveaxis(x, dim, 0) for x in xs]
    return _scan(runner, position, combine, init, moved, additional, reverse=reverse)


def _map(
    runner: SubgraphRunner,
    position: int,
    body: GraphModule,
    xs: Sequence[Any],
    operands: Sequence[Any] = (),
) -> list[Any]:
    return _scan(runner, position, body, (), xs, operands)


def _associative_scan(
    runner: SubgraphRunner,
    position: int,
    combine: GraphModule,
    xs: Sequence[Any],
    additional: Sequence[Any] = (),
) -> list[Any]:
    key = runner.fresh(position)
    count = len(xs)

    def pair(*flat: Any) -> list[Any]:
        return runner.sub(combine, [*flat, *additional], key)

    def together(left: list[Any], right: list[Any]) -> list[Any]:
        # torch's combine function operates on single elements, so map it over the scanned
        # dimension.
        combined = jax.vmap(pair)(*left, *right)
        return [value.astype(x.dtype) for value, x in zip(combined[:count], left, strict=True)]

    return list(jax.lax.associative_scan(together, list(xs)))


def _associative_scan_along(
    runner: SubgraphRunner, position: int, combine: GraphModule, xs: Sequence[Any], dim: int
) -> list[Any]:
    moved = [jnp.moveaxis(x, dim, 0) for x in xs]
    return [jnp.moveaxis(x, 0, dim) for x in _associative_scan(runner, position, combine, moved)]


def _subgraph(
    runner: SubgraphRunner, position: int, graph: GraphModule, identifier: str, *operands: Any
) -> list[Any]:
    if V2_6:
        (operands,) = operands
    return runner.sub(graph, operands, runner.fresh(position))


def _split(operands: Sequence[Any]) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """Return the traced operands, and a function that substitutes new values for them.

    The function returns all operands, traced or not.
    """
    traced = [i for i, value in enumerate(operands) if isinstance(value, jax.Array)]

    def fill(values: Sequence[Any]) -> list[Any]:
        filled = list(operands)
        for i, value in zip(traced, values, strict=True):
            filled[i] = value
        return filled

    return [operands[i] for i in traced], fill


def _turn(key: Any, turn: Any) -> Any:
    return None if key is None else jax.random.fold_in(key, turn)


def _like(values: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
    return [
        jnp.asarray(value).astype(jnp.asarray(example).dtype)
        for value, example in zip(values, examples, strict=True)
    ]


_TABLE: dict[HigherOrderOperator, _Function] = {
    associative_scan_op: _associative_scan_along if V2_6 else _associative_scan,
    cond_op: _cond,
    flex_attention: flex.forward,
    flex_attention_backward: flex.backward,
    invoke_subgraph: _subgraph,
    map_impl: _map,
    scan_op: _scan_along if V2_6 else _scan,
    while_loop_op: _while_loop,
}
