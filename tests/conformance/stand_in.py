# SPDX-License-Identifier: Apache-2.0
"""A device without a runtime: tensors live on the CPU, and every operator runs in JAX.

A dispatch mode takes the place of the device's recorder: it sees each operator after autograd and
after torch's own composite kernels, makes it pure, lowers it, and writes the results back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_google.tpu import lowerings
from torch_google.tpu.program import HostRead, Program, constant, lower_op, mutation, tensor_of

# What a device does without a program: storage, the shape of a tensor, and the way to the host.
_HOST = frozenset(
    {
        "aten::_local_scalar_dense",
        "aten::_resize_output_",
        "aten::empty.memory_format",
        "aten::empty_like",
        "aten::empty_permuted",
        "aten::empty_strided",
        "aten::equal",
        "aten::is_same_size",
        "aten::is_set_to",
        "aten::lift",
        "aten::lift_fresh",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::resize_as_",
        "aten::set_",
        "aten::set_.source_Storage_storage_offset",
        "aten::set_.source_Tensor",
    }
)


class StandIn(TorchDispatchMode):
    """Run what is called inside in JAX. `random` and `undefined` tell of what has run so far.

    Raises what lower_op raises, and NotImplementedError for tensors that are not strided.
    """

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self.random = False
        self.undefined = False
        self._key = jax.random.key(seed)
        self._calls = 0

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        leaves = pytree.tree_leaves((args, kwargs))
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided:
                raise NotImplementedError(f"tpu: {func.name()} of a tensor of {leaf.layout}")
        if func.name() in _HOST or _is_view(func) or torch.Tag.inplace_view in func.tags:
            self.undefined |= "empty" in func.name()
            return func(*args, **kwargs)
        if lowerings.find(func) is None:
            with self:  # within a kernel, torch leaves its own composite operators to us
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        try:
            return self._run(func, args, kwargs)
        except HostRead:
            if not func.has_kernel_for_dispatch_key(DispatchKey.CompositeExplicitAutograd):
                raise
            with self:
                return func._op_dk(DispatchKey.CompositeExplicitAutograd, *args, **kwargs)

    def _run(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plan = mutation(op)
        written = plan.targets(args, kwargs)
        pure_args, pure_kwargs = plan.arguments(args, kwargs)
        results = self._execute(plan.op, pure_args, pure_kwargs)
        for value, target in zip(plan.values, written, strict=True):
            _write(target, results[value], resize=bool(plan.dropped))
        fresh = iter(results[: plan.plain])
        names = (_alias(op._schema.arguments[i]) for i in plan.written)
        aliases = dict(zip(names, written, strict=True))
        returned = [aliases[_alias(r)] if r.alias_info else next(fresh) for r in op._schema.returns]
        return returned[0] if len(returned) == 1 else (tuple(returned) or None)

    def _execute(self, op: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        program = _program(op, args, kwargs)
        arrays = [
            constant(leaf)
            for leaf in pytree.tree_leaves((tuple(args), kwargs))
            if isinstance(leaf, torch.Tensor)
        ]
        key = None
        if program.random:
            self.random = True
            self._calls += 1
            key = jax.random.fold_in(self._key, self._calls)
        run = program if program.host_shape else _jitted(program)
        flat = run(arrays, key)
        metas = program.metas
        results = [
            _tensor(r, m, known=not program.host_shape) for r, m in zip(flat, metas, strict=True)
        ]
        if len(op._schema.returns) == 1 and str(op._schema.returns[0].type).startswith("List"):
            return [results]
        if len(op._schema.returns) == len(results):
            return results
        return _grouped(op, args, kwargs, results)


_PROGRAMS: dict[Any, Program] = {}
_JITTED: dict[int, Any] = {}


def _program(op: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Program:
    leaves, structure = pytree.tree_flatten((tuple(args), kwargs))
    key = (op, str(structure), tuple(_described(leaf) for leaf in leaves), lowerings.names())
    if key not in _PROGRAMS:
        _PROGRAMS[key] = lower_op(op, args, kwargs)
    return _PROGRAMS[key]


def _jitted(program: Program) -> Any:
    if id(program) not in _JITTED:
        _JITTED[id(program)] = jax.jit(program)
    return _JITTED[id(program)]


def _described(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return ("tensor", leaf.dtype, tuple(leaf.shape), leaf.stride())
    if isinstance(leaf, torch.Generator):
        return "generator"
    return (type(leaf), repr(leaf))


def _is_view(op: OpOverload) -> bool:
    return any(r.alias_info and not r.alias_info.is_write for r in op._schema.returns)


def _alias(argument: Any) -> frozenset[str]:
    return frozenset(argument.alias_info.before_set) if argument.alias_info else frozenset()


def _named(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in op._schema.arguments]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def _write(target: Any, value: Any, *, resize: bool) -> None:
    if isinstance(target, list | tuple):
        for one, new in zip(target, value, strict=True):
            _write(one, new, resize=resize)
    elif target is not None:
        if resize and target.shape != value.shape:
            target.resize_(value.shape)
        target.copy_(value)


def _grouped(op: OpOverload, args: list[Any], kwargs: dict[str, Any], flat: list[Any]) -> list[Any]:
    """Cut a flat list of results into those of the schema, where some are lists themselves."""
    groups: list[Any] = []
    rest = iter(flat)
    given = _named(op, args, kwargs)
    for result in op._schema.returns:
        if str(result.type).startswith("List"):
            like = given[str(result.name).removesuffix("_out")]
            groups.append([next(rest) for _ in like])
        else:
            groups.append(next(rest))
    return groups


def _tensor(result: Any, meta: torch.Tensor | None, *, known: bool) -> Any:
    if not isinstance(meta, torch.Tensor):
        return result
    dense = tensor_of(result)
    if dense.dtype != meta.dtype:
        raise TypeError(f"tpu: a program gave {dense.dtype} for {meta.dtype}")
    if not known or meta.is_contiguous():
        return dense
    strided = torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype)
    return strided.copy_(dense)
