# SPDX-License-Identifier: Apache-2.0
"""Translates a graph for torch's CPU kernels, which read the memory of its arguments.

`../csrc/cpu_graph.cpp` interprets the translation. A step is a pair (action, operands). The action
is one of:

- an operator's name and overload, whether its result may overwrite its first operand, and the name
  of the kernel (`../csrc/small_kernels.h`) that replaces it if the operands are small, or None; the
  operands are all of its arguments, in schema order
- the kind of a view (`../csrc/cpu_views.h`); the operands are a tensor and numbers
- a Python function of numbers, such as `operator.mul`
- an integer n, which selects item n of its operand

An operand is ("constant", value), ("value", register) or ("list", operands). The first registers
hold the arguments of the graph. Each step has the next register for its result. Nodes that compute
the same value share a step, and a node that returns its argument needs none.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from torch_google.tpu.compile.device_adapter import DeviceAdapter
from torch_google.tpu.compile.graph_signature import GraphSignature

_Operand = tuple[str, Any]
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
_CPU = torch.device("cpu")
_aten = torch.ops.aten
_EMPTY = frozenset(
    {
        *(_aten.empty.memory_format, _aten.empty_strided.default, _aten.empty_like.default),
        *(_aten.new_empty.default, _aten.new_empty_strided.default),
    }
)
# The kind of view that an operator creates, and how many of its arguments describe it.
_VIEWS = {
    _aten.alias.default: ("alias", 0),
    _aten.detach.default: ("alias", 0),
    _aten.t.default: ("matrix_transpose", 0),
    _aten.view.default: ("reshape", 1),
    _aten._unsafe_view.default: ("reshape", 1),
    _aten.permute.default: ("permute", 1),
    _aten.expand.default: ("expand", 1),
    _aten.squeeze.dim: ("squeeze", 1),
    _aten.squeeze.dims: ("squeeze", 1),
    _aten.transpose.int: ("transpose", 2),
    _aten.unsqueeze.default: ("unsqueeze", 1),
    _aten.select.int: ("select", 2),
    _aten.slice.Tensor: ("slice", 4),
}
# Maps an operator to its small kernel, and to the values (such as alpha=1) that its trailing
# arguments must have.
_SMALL_KERNELS: dict[OpOverload, tuple[str, list[Any]]] = {
    _aten.add.Tensor: ("add", [1]),
    _aten.sub.Tensor: ("subtract", [1]),
    _aten.mul.Tensor: ("multiply", []),
    _aten.div.Tensor: ("divide", []),
    _aten.neg.default: ("negate", []),
    _aten.pow.Tensor_Scalar: ("square", [2]),
    _aten.rsqrt.default: ("reciprocal_root", []),
}
_OVERWRITTEN_DTYPES = frozenset({torch.float32, torch.float64, torch.int64, torch.bool})
_FILLS = frozenset({_aten.fill.Scalar, _aten.fill.Tensor, _aten.zero.default, _aten.copy.default})


class NoCpuGraph(Exception):
    """A graph cannot run on CPU kernels. The message is the reason."""


@dataclass
class CpuGraphPlan:
    """A graph in the format that C++ interprets.

    The first `outputs` are the new values of the arguments `written`, and the others are new
    results. `results` lists all results of the graph, in order. Each is a node for a new result,
    the index of the argument that is returned, or, in a list of one item, a constant.
    """

    written: list[int]
    results: list[Node | int | list[Any]]
    nodes: list[Node]
    steps: list[tuple[Any, list[_Operand]]] = field(default_factory=list)
    outputs: list[_Operand] = field(default_factory=list)


def plan(signature: GraphSignature, adapter: DeviceAdapter) -> CpuGraphPlan:
    """Translate a graph. Raises NoCpuGraph if one of its operators must run in a program."""
    graph = signature.graph
    _check(signature)
    results = [_result(signature, output) for output in signature.outputs]
    written = list(signature.written)
    nodes = [signature.written[index] for index in written]
    nodes += dict.fromkeys(result for result in results if isinstance(result, Node))
    translation = CpuGraphPlan(written, results, nodes)
    registers = {node: index for index, node in enumerate(signature.inputs)}
    known: dict[Hashable, int] = {}
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output") or _is_epilogue(signature, node):
            continue
        if node.op != "call_function":
            raise NoCpuGraph(f"{node.op} {node.target}")
        step = _step(node, registers, signature, adapter)
        same = _same_value(node)
        if same is not None:
            registers[node] = registers[same]
            continue
        key = _identity(step)
        if key not in known:
            translation.steps.append(step)
            known[key] = len(signature.inputs) + len(translation.steps) - 1
        registers[node] = known[key]
    translation.outputs = [("value", registers[node]) for node in nodes]
    return translation


def _check(signature: GraphSignature) -> None:
    if signature.random or signature.collective or signature.checks:
        raise NoCpuGraph("random numbers, collectives or checks of values")
    if sum(isinstance(module, GraphModule) for module in signature.graph.modules()) > 1:
        raise NoCpuGraph("control flow")
    for meta in signature.metas:
        if not (meta is None or isinstance(meta, (torch.Tensor, *_NUMBERS))):
            raise NoCpuGraph(f"an argument of type {type(meta).__name__}")
    for index, value in signature.written.items():
        target = signature.metas[index]
        if target.device != signature.device or value.meta["val"].dtype != target.dtype:
            raise NoCpuGraph("a write that moves or converts values")
        if any(isinstance(stride, int) and stride == 0 for stride in target.stride()):
            # The kernel would raise after the graph has written to other arguments.
            raise NoCpuGraph("a write to a tensor whose elements overlap")


def _result(signature: GraphSignature, output: Any) -> Node | int | list[Any]:
    if not isinstance(output, Node):
        return [output]
    index = signature.argument(output)
    if index is not None:
        return index
    meta = output.meta.get("val")
    if not isinstance(meta, (torch.Tensor, *_NUMBERS)):
        raise NoCpuGraph(f"a result of type {type(meta).__name__}")
    if isinstance(meta, torch.Tensor) and meta.device != signature.device:
        raise NoCpuGraph(f"a result on {meta.device}")
    if signature.family(output):
        raise NoCpuGraph("results that share storage")
    return output


def _is_epilogue(signature: GraphSignature, node: Node) -> bool:
    """Return whether a node stores the new value of an argument."""
    return (
        node.target is torch.ops.aten.copy_.default
        and isinstance(node.args[0], Node)
        and node.args[0].op == "placeholder"
        and node.args[1] in signature.written.values()
    )


def _step(
    node: Node, registers: dict[Node, int], signature: GraphSignature, adapter: DeviceAdapter
) -> tuple[Any, list[_Operand]]:
    target = node.target
    if isinstance(target, OpOverload):
        values = _positional(target, node)
        arguments = map_arg(values, lambda each: each.meta.get("val"))
        if not (adapter.runs_on_cpu(target, arguments) or _is_overwritten(node)):
            raise NoCpuGraph(str(target))
        if target in _VIEWS:
            return view(target, values, lambda value: _operand(value, registers, signature))
        if _needs_no_copy(node, values, signature):
            target = torch.ops.aten.contiguous.default
        schema = target._schema
        small = small_kernel(target, arguments, node.meta.get("val"))
        name = (schema.name, schema.overload_name, _may_overwrite(node), small)
        return name, [_operand(value, registers, signature) for value in values]
    if target is operator.getitem and isinstance(node.args[1], int):
        return node.args[1], [_operand(node.args[0], registers, signature)]
    metas = [leaf.meta.get("val") if isinstance(leaf, Node) else leaf for leaf in node.args]
    is_numeric = all(isinstance(value, _NUMBERS) for value in (*metas, node.meta.get("val")))
    if not is_numeric or node.kwargs or not callable(target):
        raise NoCpuGraph(str(target))
    return target, [_operand(value, registers, signature) for value in node.args]


def view(
    op: OpOverload, values: Sequence[Any], operand: Callable[[Any], _Operand]
) -> tuple[str, list[_Operand]]:
    """Return the step for an operator that creates a view.

    `values` are its arguments in schema order, and `operand` converts one of them or a number.
    """
    kind, count = _VIEWS[op]
    numbers = list(values[1 : 1 + count])
    if kind == "slice":
        _, start, end, _ = numbers
        numbers[1:3] = 0 if start is None else start, sys.maxsize if end is None else end
    each = [part for number in numbers for part in (number if _is_list(number) else [number])]
    return kind, [operand(values[0]), *map(operand, each)]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _identity(value: Any) -> Hashable:
    """Return a key that is equal for equal steps. 1 and 1.0 differ, and so do 0.0 and -0.0."""
    if isinstance(value, tuple | list):
        return type(value), *map(_identity, value)
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _same_value(node: Node) -> Node | None:
    """Return an earlier node with the same elements, sizes and strides, if there is one."""
    if node.target not in _VIEWS or not isinstance(node.args[0], Node):
        return None
    source = node.args[0]
    if node.target is _aten.t.default and source.target is _aten.t.default:
        source = source.args[0]
    return source if _layout(source) == _layout(node) else None


def _layout(node: Node) -> tuple[Any, ...]:
    meta = node.meta["val"]
    numbers = (*meta.shape, *meta.stride(), meta.storage_offset())
    return meta.dtype, meta.dim(), [_expression(number) for number in numbers]


def _expression(number: Any) -> Any:
    """Return a size as a sympy expression, because comparing symbols adds guards."""
    return number.node.expr if isinstance(number, torch.SymInt) else number


def _may_overwrite(node: Node) -> bool:
    """Return whether the result of an operator may have the memory of its first operand.

    It may only in the dtypes _OVERWRITTEN_DTYPES. In others, torch's operators round differently in
    place.
    """
    if torch.Tag.pointwise not in node.target.tags or not isinstance(node.args[0], Node):
        return False
    before, after = node.args[0].meta.get("val"), node.meta.get("val")
    return (
        isinstance(before, torch.Tensor)
        and isinstance(after, torch.Tensor)
        and before.dtype == after.dtype
        and before.dtype in _OVERWRITTEN_DTYPES
        and [_expression(size) for size in before.shape]
        == [_expression(size) for size in after.shape]
    )


def small_kernel(op: OpOverload, arguments: Sequence[Any], result: Any) -> str | None:
    """Return the name of the small kernel that can replace `op` with these arguments, or None.

    `arguments` are in schema order. The tensors may be fake.
    """
    if op is _aten.cat.default:
        return "concatenate" if isinstance(arguments[1], int) else None
    if op is _aten.mean.dim:
        tensor, dimensions, _, dtype = arguments
        is_last = dimensions in ([-1], [tensor.dim() - 1])
        return "row_mean" if is_last and dtype is None else None
    if op not in _SMALL_KERNELS or result.dtype != torch.float32:
        return None
    name, trailing = _SMALL_KERNELS[op]
    last = list(arguments[len(arguments) - len(trailing) :])
    return name if all(isinstance(v, int | float) for v in last) and last == trailing else None


def _needs_no_copy(node: Node, values: list[Any], signature: GraphSignature) -> bool:
    """Return whether a node is a contiguous copy that nothing distinguishes from its source.

    Nothing is written inside a graph. But a result has strides, and `as_strided` depends on the
    offset in the storage.
    """
    return (
        node.target is _aten.clone.default
        and values[1] == torch.contiguous_format
        and all(user.op != "output" for user in node.users)
        and all(each.target is not _aten.as_strided.default for each in signature.graph.graph.nodes)
    )


def _is_overwritten(node: Node) -> bool:
    """Return whether a node is uninitialized memory that is never read before it is filled."""
    return node.target in _EMPTY and all(
        user.target in _FILLS and user.args[0] is node and node not in user.args[1:]
        for user in node.users
    )


def _operand(value: Any, registers: dict[Node, int], signature: GraphSignature) -> _Operand:
    if isinstance(value, Node):
        return "value", registers[value]
    if isinstance(value, list | tuple):
        if any(isinstance(leaf, Node) for leaf in pytree.tree_leaves(list(value))):
            return "list", [_operand(item, registers, signature) for item in value]
        return "constant", list(value)
    if isinstance(value, torch.device):
        device = signature.device
        same = value.type == device.type and value.index in (None, device.index)
        return "constant", _CPU if same else value
    return "constant", value


def _positional(op: OpOverload, node: Node) -> list[Any]:
    """Return all arguments of a node in schema order."""
    schema = op._schema.arguments
    values = {argument.name: argument.default_value for argument in schema}
    if not node.kwargs.keys() <= values.keys():
        raise NoCpuGraph(f"{op} with arguments that are not in its schema")
    values |= dict(zip(values, node.args, strict=False))
    values |= node.kwargs
    return list(values.values())


def expected(
    translation: CpuGraphPlan, symbols: Any, loose: Sequence[Node]
) -> list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...] | None] | None]:
    """Return the dtype, sizes and strides of each output, or None for a number.

    Nodes in `loose` may have any strides, and so may the new values of arguments.
    """
    described: list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...] | None] | None] = []
    for index, node in enumerate(translation.nodes):
        meta = node.meta["val"]
        if not isinstance(meta, torch.Tensor):
            described.append(None)
            continue
        sizes, strides, _ = symbols.layout(meta)
        is_loose = node in loose or index < len(translation.written)
        described.append((meta.dtype, sizes, None if is_loose else strides))
    return described
