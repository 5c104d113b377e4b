# SPDX-License-Identifier: Apache-2.0
"""Calls of functions that XLA cannot partition, in programs that it partitions across devices.

The shardings of intermediate arrays are unknown while a program is traced or lowered, because XLA's
partitioner, Shardy, propagates them later. So such a call is lowered to a placeholder. `resolve`
runs Shardy's propagation on a copy of the lowered program, reads the shardings of each
placeholder's operands and results, and replaces the placeholder with a `jax.shard_map` of the
function that the caller's planner chooses for them.

`jax.experimental.custom_partitioning` would do the same during compilation, but libtpu does not
implement it: https://github.com/jax-ml/jax/issues/38196
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax._src.custom_partitioning_sharding_rule import (
    sdy_sharding_rule_to_mlir,
    str_to_sdy_sharding_rule,
)
from jax._src.interpreters.mlir import merge_mlir_modules
from jax._src.lib.mlir import ir, passmanager
from jax._src.lib.mlir.dialects import func, hlo, sdy
from jax._src.sharding_impls import ShardingContext
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, PartitionSpec

Axes = Mapping[str, tuple[str, ...]]
"""The mesh axes that shard each dimension of an array. A dimension is a letter."""


@dataclass(frozen=True)
class Signature:
    """The dimensions of a call's operands and results.

    Each array is a string of letters, one per dimension. A letter always has the same size. Shardy
    propagates the sharding of a dimension from array to array, but not for the letters in `whole`.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    whole: str

    @property
    def rule(self) -> Any:
        """Return the signature as a sharding rule for Shardy."""
        operands, results = (
            ", ".join(" ".join(array) for array in arrays)
            for arrays in (self.operands, self.results)
        )
        # Shardy requires that these letters are in the order in which they first occur.
        whole = sorted(self.whole, key=operands.index)
        return str_to_sdy_sharding_rule(
            f"{operands} -> {results}", need_replication_factors=tuple(whole)
        )


@dataclass(frozen=True)
class Plan:
    """The function that each device runs on its part of the operands, and how they are divided.

    `axes` applies to all operands and results. XLA moves data if their shardings differ from it.
    """

    function: Callable[..., Sequence[jax.Array]]
    axes: Axes


Planner = Callable[[Mapping[str, int], Mapping[str, int], Sequence[Axes]], Plan]
"""Maps the sizes of mesh axes, the sizes of dimensions, and the axes of all arrays to a plan."""


def partitioned_call(
    *arrays: jax.Array,
    name: str,
    signature: Signature,
    planner: Planner,
    results: Sequence[jax.ShapeDtypeStruct],
) -> list[jax.Array]:
    """Return the results of a function that `planner` chooses once the shardings are known.

    `name` must identify the signature and the planner, in all processes: the text of a lowered
    program contains it, and may be the program's key in the compile cache.
    """
    avals = tuple(ShapedArray(each.shape, each.dtype) for each in results)
    values: list[jax.Array] = _call_p.bind(
        *arrays, name=name, signature=signature, planner=planner, results=avals
    )
    return values


def can_lower(context: Any) -> bool:
    """Return whether calls can be lowered in this context, in which XLA partitions."""
    return isinstance(context, ShardingContext) and bool(jax.config.jax_use_shardy_partitioner)


def resolve(lowered: jax.stages.Lowered) -> jax.stages.Lowered:
    """Return a lowered program in which all placeholders are replaced. It can be compiled."""
    computation: Any = lowered._lowering
    module: ir.Module = computation.stablehlo()
    if not _CALLS or not any(True for _ in _placeholders(module)):
        return lowered
    with module.context, ir.Location.unknown():
        module = ir.Module.parse(str(module.operation.get_asm(enable_debug_info=True)))
        for index, call in enumerate(_placeholders(module)):
            call.attributes[_INDEX] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), index)
        placeholders = list(_placeholders(module))
        calls = [_CALLS[ir.StringAttr(p.attributes["backend_config"]).value] for p in placeholders]
        propagated = _propagated(module, calls[0].devices)
        for index, (placeholder, call) in enumerate(zip(placeholders, calls, strict=True)):
            _replace(placeholder, call, propagated[index], module, computation._platforms)
    resolved, resolved._lowering = copy.copy(lowered), copy.copy(computation)
    resolved._lowering._hlo = module
    return resolved


_call_p = Primitive("tpu_partitioned_call")
_call_p.multiple_results = True
_TARGET, _INDEX = "torch_google.partitioned_call", "torch_google.index"
_SHARDING = "sdy.sharding"


@dataclass(frozen=True)
class _Call:
    signature: Signature
    planner: Planner
    operands: tuple[ShapedArray, ...]
    devices: int


# The calls in all programs that were lowered, by the text in their placeholders.
_CALLS: dict[str, _Call] = {}


@_call_p.def_abstract_eval
def _abstract(*_: Any, results: tuple[ShapedArray, ...], **__: Any) -> list[ShapedArray]:
    return list(results)


def _lower(
    ctx: Any,
    *operands: ir.Value,
    name: str,
    signature: Signature,
    planner: Planner,
    results: tuple[ShapedArray, ...],
) -> Any:
    module = ctx.module_context
    types = [mlir.aval_to_ir_type(module, aval) for aval in results]
    call = _Call(signature, planner, tuple(ctx.avals_in), module.axis_context.num_devices)
    key = f"{name} of {', '.join(aval.str_short() for aval in call.operands)} on {call.devices}"
    _CALLS[key] = call
    placeholder = hlo.CustomCallOp(
        types,
        list(operands),
        call_target_name=ir.StringAttr.get(_TARGET),
        has_side_effect=ir.BoolAttr.get(False),
        api_version=mlir.i32_attr(2),
        called_computations=ir.ArrayAttr.get([]),
        backend_config=ir.StringAttr.get(key),
    )
    placeholder.attributes["sdy.sharding_rule"] = sdy_sharding_rule_to_mlir(
        signature.rule, [operand.type for operand in operands], types
    )
    return placeholder.results


mlir.register_lowering(_call_p, _lower)


def _placeholders(module: ir.Module) -> Iterator[ir.Operation]:
    return (
        each
        for each in _operations(module.operation)
        if each.name == "stablehlo.custom_call"
        and ir.StringAttr(each.attributes["call_target_name"]).value == _TARGET
    )


def _operations(parent: ir.Operation) -> Iterator[ir.Operation]:
    for region in parent.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                yield from _operations(each.operation)


@dataclass(frozen=True)
class _Shardings:
    """The shardings of a placeholder's operands and results, on the mesh of this name, if any."""

    mesh_name: str | None
    mesh: AbstractMesh
    specs: list[tuple[tuple[str, ...], ...]]


def _propagated(module: ir.Module, devices: int) -> dict[int, _Shardings]:
    """Return each placeholder's shardings, by its index."""
    duplicate = ir.Module.parse(str(module))
    pipeline = passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
    pipeline.run(duplicate.operation)
    meshes = _meshes(duplicate)
    shardings: dict[int, _Shardings] = {}
    # A function that is called more than once may have been inlined. Its first call decides.
    for call in _placeholders(duplicate):
        index = ir.IntegerAttr(call.attributes[_INDEX]).value
        if index not in shardings:
            values = [_sharding(value) for value in (*call.operands, *call.results)]
            shardings[index] = _on_one_mesh(values, meshes, devices)
    return shardings


def _meshes(module: ir.Module) -> dict[str, AbstractMesh]:
    """Return the meshes that shardings in the module refer to, by name."""
    meshes = {}
    for each in module.body.operations:
        if each.operation.name == "sdy.mesh":
            axes = [sdy.MeshAxisAttr(a) for a in sdy.MeshAttr(each.attributes["mesh"]).axes]
            if axes:
                sizes, names = tuple(a.size for a in axes), tuple(a.name for a in axes)
                meshes[ir.StringAttr(each.attributes["sym_name"]).value] = AbstractMesh(
                    sizes, names
                )
    return meshes


def _sharding(value: ir.Value) -> Any:
    """Return the propagated sharding of a value, or None if it has none."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return _listed(owner, ir.OpResult(value).result_number)
    number, parent = ir.BlockArgument(value).arg_number, owner.owner
    if parent.name != "func.func":
        return _listed(parent, number)
    if "arg_attrs" in parent.attributes:
        attributes = ir.DictAttr(ir.ArrayAttr(parent.attributes["arg_attrs"])[number])
        if _SHARDING in attributes:
            return attributes[_SHARDING]
    return None


def _listed(operation: Any, number: int) -> Any:
    """Return the sharding of an operation's result with this number, or None if it has none."""
    if _SHARDING not in operation.attributes:
        return None
    shardings = sdy.TensorShardingPerValueAttr(operation.attributes[_SHARDING]).shardings
    return shardings[number] if number < len(shardings) else None


def _on_one_mesh(
    shardings: Sequence[Any], meshes: Mapping[str, AbstractMesh], devices: int
) -> _Shardings:
    """Decode shardings. One that is on another mesh than the first counts as unknown."""
    names: list[str | None] = []
    specs: list[tuple[tuple[str, ...], ...]] = []
    for each in shardings:
        sharding = None if each is None else sdy.TensorShardingAttr(each)
        name = None if sharding is None else str(sharding.mesh_or_ref).strip('@"')
        names.append(name if name in meshes else None)
        dimensions = () if sharding is None else sharding.dimension_shardings
        # A part of an axis counts as the axis, because jax.shard_map uses whole axes only.
        specs.append(
            tuple(
                tuple(dict.fromkeys(sdy.AxisRefAttr(a).name for a in dimension.axes))
                for dimension in map(sdy.DimensionShardingAttr, dimensions)
            )
        )
    first = next((name for name in names if name is not None), None)
    if first is None:
        return _Shardings(None, AbstractMesh((devices,), ("devices",)), [() for _ in specs])
    known = [spec if name == first else () for name, spec in zip(names, specs, strict=True)]
    return _Shardings(first, meshes[first], known)


def _replace(
    placeholder: ir.Operation,
    call: _Call,
    shardings: _Shardings,
    module: ir.Module,
    platforms: Sequence[str],
) -> None:
    """Replace a placeholder by a call of its function, which is added to the module."""
    signature, mesh = call.signature, shardings.mesh
    names = (*signature.operands, *signature.results)
    sizes = {
        letter: size
        for name, aval in zip(signature.operands, call.operands, strict=True)
        for letter, size in zip(name, aval.shape, strict=True)
    }
    axes = [
        dict(zip(name, spec, strict=False))
        for name, spec in zip(names, shardings.specs, strict=True)
    ]
    plan = call.planner(dict(mesh.shape), sizes, axes)

    def specs_of(arrays: Sequence[str]) -> tuple[PartitionSpec, ...]:
        return tuple(PartitionSpec(*(plan.axes.get(each, ()) for each in name)) for name in arrays)

    function = jax.shard_map(
        lambda *values: tuple(plan.function(*values)),
        mesh=mesh,
        in_specs=specs_of(signature.operands),
        out_specs=specs_of(signature.results),
        check_vma=False,
    )
    arguments = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in call.operands]
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=tuple(platforms))
    text = lowered._lowering.stablehlo().operation.get_asm(enable_debug_info=True)
    added = ir.Module.parse(text)
    symbols = ir.SymbolTable(module.operation)
    _use_mesh(added, shardings.mesh_name, symbols, module)
    function_name = merge_mlir_modules(module, "partitioned_call", added, symbols)
    types = [result.type for result in placeholder.results]
    with ir.InsertionPoint(placeholder), placeholder.location:
        called = func.CallOp(
            types, ir.FlatSymbolRefAttr.get(function_name), list(placeholder.operands)
        )
    for old, new in zip(placeholder.results, called.results, strict=True):
        old.replace_all_uses_with(new)
    placeholder.erase()


def _use_mesh(
    added: ir.Module, name: str | None, symbols: ir.SymbolTable, module: ir.Module
) -> None:
    """Let an added module, whose functions use one mesh, use the mesh of this name in `module`.

    If the name is None, its mesh is moved to `module`.
    """
    own = ir.SymbolTable(added.operation)
    for mesh in [each for each in added.body.operations if each.operation.name == "sdy.mesh"]:
        old = ir.StringAttr(mesh.attributes["sym_name"]).value
        new = name or next(each for each in _names("mesh") if each not in symbols)
        for each in added.body.operations:
            own.replace_all_symbol_uses(old, new, each.operation)
        if name is None:
            mesh.attributes["sym_name"] = ir.StringAttr.get(new)
            mesh.operation.move_before(module.body.operations[0].operation)
            symbols.insert(mesh)
        else:
            mesh.operation.erase()


def _names(prefix: str) -> Iterator[str]:
    return (f"{prefix}_{number}" for number in itertools.count())
