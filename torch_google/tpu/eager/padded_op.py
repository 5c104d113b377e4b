# SPDX-License-Identifier: Apache-2.0
"""Programs for operators whose sizes keep changing.

A program computes the operator on padded arrays, by the rules in ../buckets, and serves all sizes
up to its buckets. The sizes are inputs of the program. The results' storages are as long as their
buckets, so the operators that read them need no padding. C++ caches a `CompiledOp` for each set of
sizes; those of one bucket share an executable.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import jax
import jax.numpy as jnp
import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, dtypes, lowerings
from torch_google.tpu.buckets import (
    BucketPolicy,
    PaddedArray,
    PaddingRefusal,
    SizeScope,
    apply_rule,
    number,
)
from torch_google.tpu.buckets.padded_array import redim
from torch_google.tpu.buckets.rules import RuleCall, plain
from torch_google.tpu.buckets.sizes import expr_of
from torch_google.tpu.eager.changing_calls import ChangingCall, size_arguments
from torch_google.tpu.eager.compiled_op import CallPlan, CompiledOp, as_dtype
from torch_google.tpu.eager.normalized_call import NewTensor, NormalizedCall
from torch_google.tpu.eager.padded_views import (
    DenseLayout,
    Layout,
    layout_of,
    packed,
    read_padded,
    write_padded,
)
from torch_google.tpu.eager.size_patterns import CallSizes, SizePattern
from torch_google.tpu.program import LoweredProgram, Number, accepted_arguments, constant
from torch_google.tpu.release import prepare_symbols
from torch_google.tpu.runtime import compiler, metrics
from torch_google.tpu.runtime.precision import get_precision, lowering_at
from torch_google.tpu.runtime.strides import View, natural, read, write

_log = logging.getLogger(__name__)
_POLICY = BucketPolicy(None)
# The programs that are kept even if C++ has forgotten all sizes that they served.
_PROGRAMS = 512
# C++ forgets half of its programs once there are this many for single sets of sizes.
_SIZES = 8192


@dataclass(frozen=True)
class _Tensor:
    """How a program reads a tensor.

    A tensor with a `view` has the same view of its storage in all calls. Any other has a `layout`,
    the expressions of its sizes, and the positions of its places among the program's numbers.
    """

    view: View | None
    layout: Layout | None = None
    sizes: tuple[sympy.Expr, ...] = ()
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Result:
    """A new tensor. Its array has `elements` elements if its sizes change; else this is None."""

    sizes: tuple[sympy.Expr, ...]
    order: tuple[int, ...]
    elements: int | None


class PaddedOps:
    """The programs for sizes that change, and the calls that cannot have one."""

    def __init__(self) -> None:
        self._refused: dict[Hashable, str] = {}
        # All programs that C++ still refers to, and those that were used most recently.
        self._programs: WeakValueDictionary[Hashable, _PaddedProgram] = WeakValueDictionary()
        self._recent: OrderedDict[_PaddedProgram, None] = OrderedDict()
        self._functions: WeakSet[Any] = WeakSet()

    def refusal(self, changing: ChangingCall) -> str | None:
        """Return why padding would affect the results of such calls; None if it is not known to."""
        return self._refused.get(_refusal_key(changing))

    def find(
        self, call: NormalizedCall, changing: ChangingCall, lowered: LoweredProgram, device: int
    ) -> CompiledOp | None:
        """Return a program on padded arrays, or None if padding would affect the results.

        Raises StoragePadded if it has lengthened a storage: C++ must describe the call again.
        """
        if self.refusal(changing) is not None:
            return None
        try:
            return self._compiled(call, lowered, device, changing)
        except PaddingRefusal as refusal:
            self._refused[_refusal_key(changing)] = str(refusal)
            metrics.exact(f"{call.op.name()}: {refusal}")
            _log.info("tpu: %s: one program per set of sizes: %s", call.op.name(), refusal)
            return None

    def clear(self) -> None:
        """Forget all programs."""
        self.__init__()  # type: ignore[misc]

    def _compiled(
        self, call: NormalizedCall, lowered: LoweredProgram, device: int, changing: ChangingCall
    ) -> CompiledOp | None:
        pattern = changing.pattern
        plan = CallPlan(call, lowered, bool(lowered.random), device)
        padded = _PaddedCall(call, lowered, plan, changing.sizes, pattern)
        if min(padded.values, default=2) < 2:
            return None  # torch treats sizes 0 and 1 differently
        try:
            _pad_storages(call, pattern, padded)
        except torch.OutOfMemoryError:
            return None  # the call may fit with its exact sizes
        key = (changing.kind, device, pattern.symbols, pattern.static, *padded.key())
        program = self._programs.get(key)
        if program is None:
            program = _PaddedProgram(padded, repr(key))
            self._programs[key] = program
        self._recent[program] = None
        self._recent.move_to_end(program)
        while len(self._recent) > _PROGRAMS:
            self._recent.popitem(last=False)
        if not program.holds(padded.values):
            metrics.exact(f"{call.op.name()}: sizes that break an assumption of the trace")
            return None
        results = program.results(call.results(lowered), padded.values)
        numbers = [*padded.values, *padded.places]
        function = partial(program.executable, *numbers)
        plan.attach_checks(function, f"{program.fingerprint} of {numbers}")
        function.program = program  # type: ignore[attr-defined]
        self._functions.add(function)
        if len(self._functions) > _SIZES:
            _C.forget_unused()
        metrics.padded("sizes")
        op = plan.compiled(function, results, program.fingerprint, None, ())
        return replace(op, is_padded=True)


def _refusal_key(changing: ChangingCall) -> Hashable:
    return changing.kind, changing.pattern.symbols, changing.pattern.static


class StoragePadded(Exception):
    """Raised after a storage has been lengthened, because the call's key contains its length."""


class _PaddedCall:
    """A call with the layouts of its tensors and the buckets of its sizes."""

    def __init__(
        self,
        call: NormalizedCall,
        lowered: LoweredProgram,
        plan: CallPlan,
        sizes: CallSizes,
        pattern: SizePattern,
    ) -> None:
        self.call = call
        self.plan = plan
        self.random = bool(lowered.random)
        self.symbols = [sympy.Symbol(f"s{i}", integer=True) for i in range(len(pattern.symbols))]
        self.values = pattern.symbol_values(sizes)
        self.buckets = {
            symbol: _POLICY.bucket(value)
            for symbol, value in zip(self.symbols, self.values, strict=True)
        }
        self.exprs = [sympy.Integer(value) for value in sizes.values]
        for symbol, group in zip(self.symbols, pattern.symbols, strict=True):
            for position, factor in group:
                self.exprs[position] = factor * symbol
        self.places: list[int] = []
        self.tensors: list[_Tensor] = []
        self._add_tensors(sizes, pattern)
        self.arguments = self._arguments()
        self.metas = lowered.metas
        self.plain = call.plain(lowered)
        self.orders = [
            None if meta is None else natural(meta.shape, meta.stride()).order
            for meta in lowered.metas[: self.plain]
        ]

    def key(self) -> tuple[Hashable, ...]:
        """Return what the program depends on, in addition to the kind and the pattern."""
        stored = (*self.plan.inputs, *self.plan.targets)
        bases = [self.call.bases[index][:2] for index in stored]
        return (
            tuple(self.buckets.values()),
            tuple((t.view, t.layout) for t in self.tensors),
            tuple(bases),
            self.plan.inputs,
            tuple(self.orders),
        )

    def hints(self) -> dict[sympy.Symbol, int]:
        """Return a value for each symbol that differs from all other sizes, if there is one.

        The operator is traced with these values. With the call's own values, the trace would
        distinguish cases such as a length that happens to equal the number of channels.
        """
        others = {int(expr) for expr in self.exprs if expr.is_Integer}
        chosen: dict[sympy.Symbol, int] = {}
        for symbol, bucket in self.buckets.items():
            candidates = range(bucket - 1, bucket // 2, -1)
            hint = next((size for size in candidates if size not in others), bucket - 1)
            others.add(hint)
            chosen[symbol] = hint
        return chosen

    def needed(self, index: int) -> int:
        """Return the number of elements that a padded storage of this tensor has."""
        tensor = self.tensors[index]
        if isinstance(tensor.layout, DenseLayout):
            return math.prod(int(number(size, self.buckets)) for size in tensor.sizes)
        return _POLICY.bucket(math.prod(self.call.bases[index][0]))

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the pure operator, with sources and expressions as leaves."""
        exprs = iter(self.exprs[sum(len(view.sizes) for view in self.call.views) :])
        values = []
        for argument, value, sources in zip(
            self.call.op._schema.arguments, self.call.args, self.call.argument_sources, strict=True
        ):
            remaining = iter(sources)
            is_size = argument.name in size_arguments(self.call.op)

            def leaf(given: Any, remaining: Any = remaining, is_size: bool = is_size) -> Any:
                if isinstance(given, torch.Tensor | Number):
                    return _Source(*next(remaining))
                return next(exprs) if is_size and isinstance(given, int) else given

            values.append(pytree.tree_map(leaf, value))
        return self.call.arranged(values)

    def _add_tensors(self, sizes: CallSizes, pattern: SizePattern) -> None:
        exprs = iter(zip(self.exprs, sizes.owners, strict=True))
        for index, view in enumerate(self.call.views):
            own = tuple(expr for expr, _ in (next(exprs) for _ in view.sizes))
            if index not in pattern.tensors:
                self.tensors.append(_Tensor(view))
                continue
            layout, places = layout_of(view, bool(own) and bool(own[-1].is_Integer))
            start = len(self.symbols) + len(self.places)
            self.places += places
            numbers = tuple(range(start, start + len(places)))
            self.tensors.append(_Tensor(None, layout, own, numbers))


class _PaddedProgram:
    """A program for all sizes of a pattern that have the same buckets."""

    def __init__(self, padded: _PaddedCall, key: str) -> None:
        self._traced = _SymbolicTrace(padded)
        # Another trace of the same call may have made other assumptions about the sizes.
        assumed = [str(guard) for guard in self._traced.guards]
        text = f"{key} {self._traced.sizes()} {assumed}"
        self.fingerprint = f"padded {sha256(text.encode()).hexdigest()}"
        self._scope = SizeScope(
            {self._traced.names[symbol]: bucket for symbol, bucket in padded.buckets.items()}
        )
        self._results = [
            self._result(meta, order)
            for meta, order in zip(self._traced.metas, padded.orders, strict=False)
            if order is not None
        ]
        self.executable = self._compile(padded)

    def holds(self, values: Sequence[int]) -> bool:
        """Return whether the program's assumptions hold for these values of the symbols."""
        numbers = self._numbers(values)
        exact = {symbol: sympy.Integer(value) for symbol, value in numbers.items()}
        return self._scope.holds(numbers) and all(
            guard.xreplace(exact) == sympy.true for guard in self._traced.guards
        )

    def results(
        self, results: Sequence[NewTensor | int | None], values: Sequence[int]
    ) -> tuple[NewTensor | int | None, ...]:
        """Return a call's results, with the lengths of their padded storages.

        Raises PaddingRefusal if their sizes are not those of the program.
        """
        padded = iter(self._results)
        numbers = self._numbers(values)
        completed: list[NewTensor | int | None] = []
        for result in results:
            if isinstance(result, NewTensor):
                own = next(padded)
                sizes = tuple(int(number(size, numbers)) for size in own.sizes)
                if sizes != result.sizes:
                    raise PaddingRefusal("a result with other sizes than its program's")
                if own.elements is not None:
                    if result.natural != tuple(sizes[axis] for axis in own.order):
                        raise PaddingRefusal("a result whose strides leave gaps")
                    result = replace(result, natural=(own.elements,))
            completed.append(result)
        return tuple(completed)

    def _numbers(self, values: Sequence[int]) -> dict[Any, int]:
        return dict(zip(self._traced.names.values(), values, strict=True))

    def _result(self, meta: torch.Tensor, order: tuple[int, ...]) -> _Result:
        sizes = tuple(self._scope.expr(size) for size in meta.shape)
        if all(size.is_Integer for size in sizes):
            return _Result(sizes, order, None)
        if 0 in sizes:
            raise PaddingRefusal("an empty result")
        lengths = [int(number(size, self._scope.buckets)) for size in sizes]
        return _Result(sizes, order, math.prod(lengths))

    def _compile(self, padded: _PaddedCall) -> jax.stages.Compiled:
        plan = padded.plan
        on = plan.placement.sharding()
        specs: list[Any] = [0] * (len(padded.symbols) + len(padded.places))
        specs += plan.specs()
        body = partial(_run, _Computation(padded, self._traced, self._scope, self._results))

        def function(*values: Any) -> tuple[jax.Array, ...]:
            return body(values)

        function.__name__ = plan.name.replace("::", "_").replace(".", "_")
        with lowering_at(get_precision()), dtypes.defaulting_to(dtypes.default_dtype()):
            # Trace even if the executable is in the cache: only tracing can raise PaddingRefusal.
            traced = jax.jit(function, out_shardings=on).trace(*specs)
        devices = plan.placement.devices
        metrics.padded("compile")
        if not lowerings.is_pinned(padded.call.pure.op):
            return compiler.executable_of(plan.name, traced.lower(), on=devices)
        return compiler.executable(
            plan.name, traced.lower, fingerprint=self.fingerprint, on=devices
        )


class _SymbolicTrace:
    """The results of the operator for symbolic sizes, and the conditions on these sizes.

    `names` maps the symbols of a `_PaddedCall` to those of the trace.
    """

    def __init__(self, padded: _PaddedCall) -> None:
        prepare_symbols()
        environment = ShapeEnv(specialize_zero_one=False)
        self.names: dict[Any, Any] = {}
        self._sizes: dict[Any, Any] = {}
        for symbol, value in padded.hints().items():
            source = ConstantSource(f"size{len(self.names)}")
            own = environment.create_symbol(value, source, dynamic_dim=DimDynamic.DYNAMIC)
            self.names[symbol] = own
            self._sizes[symbol] = environment.create_symintnode(own, hint=value, source=source)
        self.metas = self._metas(padded, environment)
        self.guards = []
        for guard in environment.guards:
            if isinstance(guard.expr, sympy.Eq) and len(guard.expr.free_symbols) == 1:
                raise PaddingRefusal("an operator that needs a certain size")
            self.guards.append(guard.expr)

    def sizes(self) -> str:
        """Return the sizes of the results, as text that is the same in every process."""
        shapes = [meta.shape for meta in self.metas if isinstance(meta, torch.Tensor)]
        return str([[str(expr_of(size)) for size in shape] for shape in shapes])

    def _metas(self, padded: _PaddedCall, environment: ShapeEnv) -> tuple[Any, ...]:
        op = padded.call.pure.op
        mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)

        def stand_in(leaf: Any) -> Any:
            if isinstance(leaf, sympy.Expr):
                return self._size(leaf)
            if isinstance(leaf, torch.device):
                return torch.device("meta")
            if isinstance(leaf, torch.Generator):
                return None
            if not isinstance(leaf, _Source):
                return leaf
            if leaf.kind == "tensor":
                return self._fake(padded, leaf.index)
            if leaf.kind == "constant":
                return padded.call.constants[leaf.index].to("meta")
            given = padded.call.numbers[leaf.index]
            return given.value if isinstance(given, Number) else given.to("meta")

        with mode, enable_python_dispatcher(), _quiet(), torch.no_grad():
            try:
                args, kwargs = pytree.tree_map(stand_in, padded.arguments)
                results = op(*accepted_arguments(op, args, "meta"), **kwargs)
            except Exception as error:
                raise PaddingRefusal(f"no symbolic sizes ({type(error).__name__})") from error
        return tuple(results) if isinstance(results, list | tuple) else (results,)

    def _fake(self, padded: _PaddedCall, index: int) -> torch.Tensor:
        view = padded.call.views[index]
        tensor = padded.tensors[index]
        dtype = padded.call.read_as or view.dtype
        if tensor.view is not None:
            return torch.empty_strided(view.sizes, view.strides, dtype=dtype, device="meta")
        order = list(range(len(view.sizes)))
        if isinstance(tensor.layout, DenseLayout):
            order = list(tensor.layout.order)
        sizes = [self._size(tensor.sizes[axis]) for axis in order]
        back = sorted(range(len(sizes)), key=order.__getitem__)
        return torch.empty(sizes, dtype=dtype, device="meta").permute(back)

    def _size(self, expr: sympy.Expr) -> Any:
        if expr.is_Integer:
            return int(expr)
        (symbol,) = expr.free_symbols
        return int(expr / symbol) * self._sizes[symbol]


@dataclass(frozen=True)
class _Source:
    """An argument that is an input: an index into `tensors`, `numbers` or `constants`."""

    kind: str
    index: int


class _Computation:
    """What a program computes. It holds no tensor of the call on which it was traced."""

    def __init__(
        self,
        padded: _PaddedCall,
        traced: _SymbolicTrace,
        scope: SizeScope,
        results: Sequence[_Result],
    ) -> None:
        self.op = padded.call.pure.op
        self.arguments = padded.arguments
        self.metas = traced.metas
        self.scope = scope
        self.names = traced.names
        self.tensors = padded.tensors
        self.views = padded.call.views
        self.bases = padded.call.bases
        self.read_as = padded.call.read_as
        self.constants = padded.call.constants
        self.dtypes = padded.plan.number_dtypes
        self.inputs = padded.plan.inputs
        self.targets = padded.plan.targets
        self.written = padded.call.written()
        self.plain = padded.plain
        self.is_random = padded.random
        self.results = results
        self.leading = len(padded.symbols) + len(padded.places)


def _run(self: _Computation, values: Sequence[Any]) -> tuple[jax.Array, ...]:
    """Return the new arrays of the written storages, and then those of the new tensors."""
    leading, rest = values[: self.leading], values[self.leading :]
    arrays = dict(zip(self.inputs, rest, strict=False))
    numbers = rest[len(self.inputs) :]
    scope = self.scope.within(dict(zip(self.names.values(), leading, strict=False)))
    key = None
    if self.is_random:
        key = jax.random.fold_in(jax.random.key(values[-2]), values[-1])

    def dims(tensor: _Tensor) -> list[Any]:
        return list(scope.dims(size.xreplace(self.names) for size in tensor.sizes))

    def places(tensor: _Tensor) -> list[Any]:
        return [leading[position] for position in tensor.places]

    def of_tensor(index: int) -> PaddedArray:
        tensor, view = self.tensors[index], self.views[index]
        if index not in arrays:
            sizes = plain(view.sizes) if tensor.layout is None else dims(tensor)
            shape = [math.prod(extent.size for extent in dim) for dim in sizes]
            return PaddedArray(jnp.zeros(shape, dtypes.to_jax(view.dtype)), tuple(sizes), True)
        if tensor.layout is None:
            assert tensor.view is not None
            x = PaddedArray(read(arrays[index], tensor.view), plain(view.sizes))
        else:
            flat = arrays[index].reshape(-1)
            x = read_padded(scope, flat, dims(tensor), tensor.layout, places(tensor))
        if self.read_as is not None:
            x = PaddedArray(x.array.astype(dtypes.to_jax(self.read_as)), x.dims)
        return x

    def argument(leaf: Any) -> Any:
        if isinstance(leaf, sympy.Expr):
            return scope.value(leaf.xreplace(self.names))
        if not isinstance(leaf, _Source):
            return leaf
        if leaf.kind == "tensor":
            return of_tensor(leaf.index)
        if leaf.kind == "constant":
            return PaddedArray(constant(self.constants[leaf.index]), ())
        dtype = self.dtypes[leaf.index]
        given = numbers[leaf.index]
        return given if dtype is None else PaddedArray(jnp.asarray(given).astype(dtype), ())

    args, kwargs = pytree.tree_map(argument, self.arguments)
    results = apply_rule(RuleCall(self.op, tuple(args), kwargs, self.metas, scope, key))
    new = dict(arrays)
    for index, value in zip(self.written, results[self.plain :], strict=True):
        if value is None:
            raise PaddingRefusal("a written value that is not computed")
        tensor, view = self.tensors[index], self.views[index]
        array = as_dtype(value.array, view.dtype)
        shape, dtype, *_ = self.bases[index]
        base = new.get(index)
        if base is None:
            base = jnp.zeros(shape, dtypes.to_jax(dtype))
        if tensor.layout is None:
            assert tensor.view is not None
            new[index] = write(base, array, tensor.view)
        else:
            own = PaddedArray(array, value.dims)
            flat = write_padded(
                scope, base.reshape(-1), own, dims(tensor), tensor.layout, places(tensor)
            )
            new[index] = flat.reshape(shape)
    made = [
        x for x, meta in zip(results[: self.plain], self.metas, strict=False) if meta is not None
    ]
    fresh = []
    for x, result in zip(made, self.results, strict=True):
        if x is None:
            raise PaddingRefusal("a result that is not computed")
        if result.elements is None:
            array = redim(scope, x, scope.dims(result.sizes)).array
            fresh.append(array.transpose(result.order))
        else:
            fresh.append(packed(scope, x, result.order, result.elements))
    return (*(new[index] for index in self.targets), *fresh)


def _pad_storages(call: NormalizedCall, pattern: SizePattern, padded: _PaddedCall) -> None:
    """Lengthen storages whose length changes with the sizes of their tensors.

    Raises StoragePadded if there were any, and PaddingRefusal if one cannot be lengthened.
    """
    lengthened = False
    for index in sorted(pattern.tensors):
        tensor = call.tensors[index]
        if _C.is_padded(tensor) or not pattern.storage_changes(index):
            continue
        needed, elements = padded.needed(index), math.prod(call.bases[index][0])
        if elements == needed:
            continue
        if _C.shared(tensor):
            raise PaddingRefusal("a storage that is visible outside the device")
        _C.pad_storage(tensor, needed if elements < needed else _POLICY.bucket(elements))
        metrics.padded("storage")
        lengthened = True
    if lengthened:
        raise StoragePadded


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's report of a failing meta kernel, because the call then runs without one."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


OPS = PaddedOps()
"""The programs of this process."""
