# SPDX-License-Identifier: Apache-2.0
"""Programs for operators whose sizes keep changing.

A program computes the operator on padded arrays, by the rules in ../buckets, and serves all sizes
that have the same buckets. The sizes are inputs of the program. The results' storages are as long
as their buckets, so the operators that read them need no padding. C++ caches a `CompiledOp` for
each set of sizes; those of one bucket share an executable.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import jax
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
    PaddingRefusal,
    SizeScope,
    number,
)
from torch_google.tpu.buckets.sizes import expr_of
from torch_google.tpu.eager.changing_calls import ChangingCall, size_arguments
from torch_google.tpu.eager.compiled_op import CallPlan, CompiledOp
from torch_google.tpu.eager.normalized_call import NewTensor, NormalizedCall
from torch_google.tpu.eager.padded_computation import (
    Computation,
    PaddedResult,
    PaddedTensor,
    Source,
)
from torch_google.tpu.eager.padded_views import (
    DenseLayout,
    layout_of,
)
from torch_google.tpu.eager.size_patterns import CallSizes, SizePattern
from torch_google.tpu.program import LoweredProgram, Number, accepted_arguments
from torch_google.tpu.release import prepare_symbols
from torch_google.tpu.runtime import compiler, metrics
from torch_google.tpu.runtime.precision import get_precision, lowering_at
from torch_google.tpu.runtime.strides import natural

_log = logging.getLogger(__name__)
_POLICY = BucketPolicy(None)
# The number of programs that are kept even if C++ has forgotten all sizes that they served.
_PROGRAMS = 512
# C++ forgets half of its programs once there are this many for single sets of sizes.
_SIZES = 8192


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
        """Return a program on padded arrays, compiled if necessary, or None if it cannot be used.

        Raises StoragePadded if it has lengthened a storage: C++ must describe the call again.
        """
        if self.refusal(changing) is not None:
            return None
        try:
            return self._compiled(call, lowered, device, changing)
        except PaddingRefusal as refusal:
            reason = str(refusal)
            if reason == call.pure.op.name():
                reason = "no padding rule"
            self._refused[_refusal_key(changing)] = reason
            metrics.exact(f"{call.op.name()}: {reason}")
            _log.info("tpu: %s: one program per set of sizes: %s", call.op.name(), reason)
            return None

    def clear(self) -> None:
        """Forget all programs."""
        self._refused.clear()
        self._programs.clear()
        self._recent.clear()
        self._functions.clear()

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
        self.tensors: list[PaddedTensor] = []
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
                    return Source(*next(remaining))
                return next(exprs) if is_size and isinstance(given, int) else given

            values.append(pytree.tree_map(leaf, value))
        return self.call.arranged(values)

    def _add_tensors(self, sizes: CallSizes, pattern: SizePattern) -> None:
        exprs = iter(zip(self.exprs, sizes.owners, strict=True))
        for index, view in enumerate(self.call.views):
            own = tuple(expr for expr, _ in (next(exprs) for _ in view.sizes))
            if index not in pattern.tensors:
                self.tensors.append(PaddedTensor(view))
                continue
            layout, places = layout_of(view, bool(own) and bool(own[-1].is_Integer))
            start = len(self.symbols) + len(self.places)
            self.places += places
            numbers = tuple(range(start, start + len(places)))
            self.tensors.append(PaddedTensor(None, layout, own, numbers))


class _PaddedProgram:
    """A program for all sizes of a pattern that have the same buckets."""

    def __init__(self, padded: _PaddedCall, key: str) -> None:
        # Do not keep the trace, which holds many symbolic objects.
        traced = _SymbolicTrace(padded)
        self._guards = traced.guards
        self._names = traced.names
        # Another trace of the same call may have made other assumptions about the sizes.
        assumed = [str(guard) for guard in traced.guards]
        text = f"{key} {traced.sizes()} {assumed}"
        self.fingerprint = f"padded {sha256(text.encode()).hexdigest()}"
        self._scope = SizeScope(
            {traced.names[symbol]: bucket for symbol, bucket in padded.buckets.items()}
        )
        self._results = [
            self._result(meta, order)
            for meta, order in zip(traced.metas, padded.orders, strict=False)
            if order is not None
        ]
        self.executable = self._compile(padded, traced)

    def holds(self, values: Sequence[int]) -> bool:
        """Return whether the program's assumptions hold for these values of the symbols."""
        numbers = self._numbers(values)
        exact = {symbol: sympy.Integer(value) for symbol, value in numbers.items()}
        return self._scope.holds(numbers) and all(
            guard.xreplace(exact) == sympy.true for guard in self._guards
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
        return dict(zip(self._names.values(), values, strict=True))

    def _result(self, meta: torch.Tensor, order: tuple[int, ...]) -> PaddedResult:
        sizes = tuple(self._scope.expr(size) for size in meta.shape)
        if all(size.is_Integer for size in sizes):
            return PaddedResult(sizes, order, None)
        if 0 in sizes:
            raise PaddingRefusal("an empty result")
        lengths = [int(number(size, self._scope.buckets)) for size in sizes]
        return PaddedResult(sizes, order, math.prod(lengths))

    def _compile(self, padded: _PaddedCall, traced: _SymbolicTrace) -> jax.stages.Compiled:
        plan = padded.plan
        on = plan.placement.sharding()
        specs: list[Any] = [0] * (len(padded.symbols) + len(padded.places))
        specs += plan.specs()
        computation = Computation(
            padded.call.pure.op,
            padded.arguments,
            traced.metas,
            self._scope,
            traced.names,
            padded.tensors,
            padded.call.views,
            padded.call.bases,
            padded.call.read_as,
            padded.call.constants,
            plan.number_dtypes,
            plan.inputs,
            plan.targets,
            padded.call.written(),
            padded.plain,
            padded.random,
            self._results,
            len(padded.symbols) + len(padded.places),
        )

        def function(*values: Any) -> tuple[jax.Array, ...]:
            return computation.run(values)

        function.__name__ = plan.name.replace("::", "_").replace(".", "_")
        with lowering_at(get_precision()), dtypes.defaulting_to(dtypes.default_dtype()):
            # Trace even if the executable is in the cache: only tracing can raise PaddingRefusal.
            lowerable = jax.jit(function, out_shardings=on).trace(*specs)
        devices = plan.placement.devices
        metrics.padded("compile")
        if not lowerings.is_pinned(padded.call.pure.op):
            return compiler.executable_of(plan.name, lowerable.lower(), on=devices)
        return compiler.executable(
            plan.name, lowerable.lower, fingerprint=self.fingerprint, on=devices
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
            if not isinstance(leaf, Source):
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
                raise PaddingRefusal(
                    f"no trace with symbolic sizes ({type(error).__name__})"
                ) from error
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
            raise PaddingRefusal("a storage whose buffer other code may use")
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
