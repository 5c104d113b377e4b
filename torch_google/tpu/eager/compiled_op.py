# SPDX-License-Identifier: Apache-2.0
"""The compiled program for an operator call: a function from storage arrays to new arrays."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import torch
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, dtypes, lowerings, program, shardings
from torch_google.tpu.eager import check_program
from torch_google.tpu.eager.call_body import Body
from torch_google.tpu.eager.normalized_call import (
    NewTensor,
    NormalizedCall,
    as_a_kernel,
    is_constant,
)
from torch_google.tpu.lowerings.checks import Checks
from torch_google.tpu.program import BakedNumber, Number, constant
from torch_google.tpu.runtime import compiler, platform
from torch_google.tpu.runtime.strides import covers, natural, read, write
from torch_google.tpu.shardings import Placement

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr

    from torch_google.tpu.program import LoweredProgram

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompiledOp:
    """A compiled program. A tensor's index is its position among all tensors in the arguments.

    `function` takes the arrays of `inputs`, then every scalar, then (if `random`) a seed and an
    offset. It returns new arrays for `written`, then one for each NewTensor in `results`. In
    `results`, an int is the index of an argument that is itself the result; None is an undefined
    tensor. `numbers` has an `f` for each float among the scalars and an `i` for each integer,
    including the seed and the offset. `function` is compiled from `body`. `fingerprint` identifies
    the program uniquely within this version of the package.

    `writes_few` tells whether the operator usually writes to few elements of its argument.
    `is_padded` tells whether the program is one of `padded_op.py`, which has no `body`.

    If `function` is None, the first run calls `load`. Programs are loaded lazily because fused mode
    runs few of the cached single-operator programs.

    If a tensor is sharded, `mesh` identifies the sharding that replicates an array across the
    tensor's devices. `input_shardings` are the shardings of `inputs`, and `shardings` those of the
    returned arrays. An input that is on only one device is replicated before the call.
    """

    name: str
    function: Any
    inputs: tuple[int, ...]
    written: tuple[int, ...]
    results: tuple[NewTensor | int | None, ...]
    numbers: str
    random: bool
    fingerprint: str
    body: Body | None
    load: Callable[[], Any] | None = None
    mesh: int = shardings.ONE_DEVICE
    input_shardings: tuple[int, ...] = ()
    shardings: tuple[int, ...] = ()
    writes_few: bool = False
    is_padded: bool = False

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """Return the program as a jaxpr, which can be part of another program."""
        assert self.body is not None
        return self.body.traced.jaxpr

    def donating(self, position: int) -> jax.stages.Compiled | None:
        """Return a variant of the program that may overwrite the input at `position`.

        Returns None if the variant cannot be compiled; then the program itself must run.
        """
        if self.body is None:
            return None
        try:
            with as_a_kernel():
                executable = self._donating(self.body, position)
                compiler.scratch(executable)
                return executable
        except Exception as error:  # noqa: BLE001 - the program itself still works
            _log.info("tpu: %s: the donating variant was not compiled: %s", self.name, error)
            return None

    def _donating(self, body: Body, position: int) -> jax.stages.Compiled:
        fingerprint = f"{self.fingerprint} donated {position}"
        devices = body.devices
        stored = compiler.find_entry(fingerprint, devices)
        entry = stored and compiler.load_entry(stored)
        if entry is not None and entry.executable is not None:
            return entry.executable
        return compiler.compiled(
            self.name,
            lambda: body.donating(position),
            fingerprint=fingerprint,
            on=devices,
        )


def kept_call(call: NormalizedCall, device: int) -> CompiledOp | None:
    """Return a call's program from the compile cache, or None if the cache has no valid entry.

    The program is lowered lazily. Raises BakedNumber if an earlier process found that the program
    depends on a number's value.
    """
    if not _is_ours(call):
        return None
    fingerprint = fingerprint_of(call)
    stored = compiler.find_entry(fingerprint, _placement(call, device).devices)
    if stored is None:
        return None
    if not stored.has_executable:
        raise BakedNumber(f"{call.op.name()}: its program depends on a number")
    try:
        results, random, chosen = _results_of(stored.note)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError):
        return None  # the note is invalid: compile the program and replace the cache entry
    plan = CallPlan(call, None, random, device)
    if plan.placement.is_sharded and len(chosen) != plan.returns(results):
        return None
    body = plan.body(results, chosen)

    def load() -> jax.stages.Compiled:
        entry = compiler.load_entry(stored)
        executable = entry.executable if entry else None
        if executable is None:
            with as_a_kernel():
                executable = plan.executable(body, results, fingerprint)
        plan.attach_checks(executable, fingerprint)
        return executable

    return plan.compiled(None, results, fingerprint, body, chosen, load)


def keep_baked(call: NormalizedCall, device: int) -> None:
    """Record in the compile cache that a call's program depends on a number's value."""
    if _is_ours(call):
        devices = _placement(call, device).devices
        compiler.store_note(fingerprint_of(call), devices, None)


def compile_call(call: NormalizedCall, lowered: LoweredProgram, device: int) -> CompiledOp:
    """Compile a call and return its program, which keeps no reference to the call's tensors."""
    fingerprint = fingerprint_of(call)
    plan = CallPlan(call, lowered, bool(lowered.random), device)
    results = tuple(call.results(lowered))
    body = plan.body(results)
    if _is_ours(call):

        def compile_body(body: Body) -> jax.stages.Compiled:
            return plan.executable(body, results, fingerprint)
    else:
        # Another package's lowerings may change between processes, so the fingerprint must include
        # the text of the program. The fingerprint also identifies the operator in fused programs.
        text = body.traced.lower().as_text()
        fingerprint += f" {sha256(text.encode()).hexdigest()}"

        def compile_body(body: Body) -> jax.stages.Compiled:
            module = body.traced.lower()
            return compiler.executable_of(plan.name, module, on=plan.placement.devices)

    executable = compile_body(body)
    chosen: list[int] = []
    if plan.placement.is_sharded:
        usable = shardings.result_numbers(executable)
        chosen = [plan.placement.mesh if number is None else number for number in usable]
        if None in usable:
            body = plan.body(results, chosen)
            executable = compile_body(body)
    plan.attach_checks(executable, fingerprint)
    return plan.compiled(executable, results, fingerprint, body, chosen)


def trace_call(call: NormalizedCall, lowered: LoweredProgram, device: int) -> None:
    """Trace a call's program without compiling it. Raises any error that its lowering raises."""
    plan = CallPlan(call, lowered, bool(lowered.random), device)
    _ = plan.body(tuple(call.results(lowered))).traced


class CallPlan:
    """A call's inputs, outputs and computation, without references to its tensors.

    `targets` are the tensors that stand for the written storages. `inputs` are the tensors whose
    storages the program reads.

    If `lowered` is None, the operator is lowered lazily, on first use.
    """

    def __init__(
        self, call: NormalizedCall, lowered: LoweredProgram | None, random: bool, device: int
    ) -> None:
        self.placement = _placement(call, device)
        self._resharding = _resharding(call)
        self._lowered = lowered
        self._pure = call.pure.op
        self._arguments = call.pure_arguments()
        self._bases = call.bases
        self._views = call.views
        # The dtype of each number; None for a Number, which has none.
        self.number_dtypes = [_number_dtype(number) for number in call.numbers]
        self._examples = [_example(number) for number in call.numbers] + [0, 0] * random
        self._constants = call.constants
        self._read_as = None if call.read_as is None else dtypes.to_jax(call.read_as)
        self._sources = call.sources()
        self._written = call.written()
        # If several written tensors share a storage, the first of them represents it.
        self._boxes = {self._bases[index][2]: index for index in reversed(self._written)}
        self.name = call.op.name()
        self.random = random
        self.targets = tuple(
            self._boxes[box]
            for box in dict.fromkeys(self._bases[index][2] for index in self._written)
        )
        valueless = {0} if call.op._schema.name in _OVERWRITING else set()
        self.inputs = tuple(
            index
            for index in range(len(call.tensors))
            if (("tensor", index) in self._sources and index not in valueless)
            or (index in self.targets and not self._overwrites(index))
        )

    def compiled(
        self,
        executable: Any,
        results: tuple[NewTensor | int | None, ...],
        fingerprint: str,
        body: Body | None,
        chosen: Sequence[int],
        load: Callable[[], jax.stages.Compiled] | None = None,
    ) -> CompiledOp:
        """Return the call's program, with either an executable or a `load` that returns one."""
        return CompiledOp(
            self.name,
            executable,
            self.inputs,
            self.targets,
            results,
            "".join("f" if isinstance(example, float) else "i" for example in self._examples),
            self.random,
            fingerprint,
            body,
            load,
            self.placement.mesh,
            tuple(self._bases[index][3] for index in self.inputs),
            tuple(chosen),
            self.name.partition(".")[0] in _WRITING_FEW,
        )

    def executable(
        self,
        body: Body,
        results: tuple[NewTensor | int | None, ...],
        fingerprint: str,
    ) -> jax.stages.Compiled:
        """Compile the program, store its executable in the compile cache, and return it."""

        def note(executable: jax.stages.Compiled) -> list[Any]:
            parts = _note_of(results, self.random)
            if self.placement.is_sharded:
                chosen = shardings.result_numbers(executable)
                parts.append([n if n is None else shardings.text_of(n) for n in chosen])
            return parts

        return compiler.compiled(
            self.name,
            lambda: body.traced.lower(),
            fingerprint=fingerprint,
            on=self.placement.devices,
            note=note,
        )

    def body(self, results: Sequence[NewTensor | int | None], chosen: Sequence[int] = ()) -> Body:
        """Return the function to compile. `chosen` lists the shardings of its results.

        If `chosen` is empty, sharded tensors that are written keep their shardings, and XLA chooses
        the shardings of all other results.
        """
        returns = self.returns(results)

        def function(*values: Any) -> tuple[jax.Array, ...]:
            return self.run(values)

        function.__name__ = self.name.replace("::", "_").replace(".", "_")
        body = Body(function, self.specs(), self.placement.sharding())
        if not self.placement.is_sharded:
            return body
        if chosen:
            return body.placed(tuple(shardings.sharding_of(number) for number in chosen))
        targets = [self._bases[index][3] for index in self.targets]
        if self._resharding is not None:
            return body.placed((shardings.sharding_of(self._resharding),))
        kept = [shardings.sharding_of(number) if number else None for number in targets]
        return body.placed((*kept, *[None] * (returns - len(kept))))

    def returns(self, results: Sequence[NewTensor | int | None]) -> int:
        """Return the number of arrays that the compiled function returns."""
        return len(self.targets) + sum(isinstance(result, NewTensor) for result in results)

    def specs(self) -> list[Any]:
        """Return the specs of the program's arguments."""
        specs: list[Any] = [
            jax.ShapeDtypeStruct(
                shape, dtypes.to_jax(dtype), sharding=self.placement.sharding(number)
            )
            for shape, dtype, _, number in (self._bases[index] for index in self.inputs)
        ]
        return specs + self._examples

    def attach_checks(self, executable: Any, fingerprint: str) -> None:
        """Register the value checks, which run in debug mode and also explain failed runs."""
        make = lowerings.check_of(self._pure.name())
        if make is None:
            return
        leaves, structure = pytree.tree_flatten(self._arguments)
        places = [
            index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor | Number)
        ]

        def function(*values: Any) -> Checks:
            filled = list(leaves)
            for index, value in zip(places, self._all_given(values), strict=True):
                filled[index] = value
            args, kwargs = pytree.tree_unflatten(filled, structure)
            return make(*args, **kwargs)

        asked = check_program.CheckProgram(
            function,
            self.specs(),
            self.placement.sharding(),
            name=self.name,
            fingerprint=fingerprint,
            devices=self.placement.devices,
        )
        check_program.attach(executable, asked)

    @cached_property
    def _program(self) -> LoweredProgram:
        return self._lowered or program.lower_op(self._pure, *self._arguments)

    def run(self, values: Sequence[Any]) -> tuple[jax.Array, ...]:
        """Compute the new arrays of the written storages, followed by those of the new tensors."""
        key = None
        if self.random:
            seed, offset = values[-2:]
            key = jax.random.fold_in(jax.random.key(seed), offset)
        results = self._program(self._all_given(values), key)
        new = dict(zip(self.inputs, values, strict=False))
        for index, value in zip(self._written, results[self._plain() :], strict=True):
            target = self._boxes[self._bases[index][2]]
            new[target] = self._write(index, new.get(target), value)
        fresh = [
            value.transpose(natural(meta.shape, meta.stride()).order)
            for value, meta in zip(results, self._program.metas[: self._plain()], strict=False)
            if meta is not None
        ]
        return tuple([new[index] for index in self.targets] + fresh)

    def _plain(self) -> int:
        return len(self._program.metas) - len(self._written)

    def _overwrites(self, target: int) -> bool:
        shape, dtype, box, _ = self._bases[target]
        first = next(index for index in self._written if self._bases[index][2] == box)
        return self._views[first].dtype == dtype and covers(self._views[first], math.prod(shape))

    def _all_given(self, values: Sequence[Any]) -> list[Any]:
        """Compute the out-of-place operator's inputs from the program's arguments."""
        arrays = dict(zip(self.inputs, values, strict=False))
        numbers = values[len(self.inputs) :]
        return [self._input_value(kind, index, arrays, numbers) for kind, index in self._sources]

    def _input_value(
        self, kind: str, index: int, arrays: dict[int, Any], numbers: Sequence[Any]
    ) -> Any:
        if kind == "constant":
            return constant(self._constants[index])
        if kind == "number":
            dtype = self.number_dtypes[index]
            return numbers[index] if dtype is None else jnp.asarray(numbers[index]).astype(dtype)
        view = self._views[index]
        if index in arrays:
            value = read(arrays[index], view)
            return value if self._read_as is None else value.astype(self._read_as)
        return jnp.zeros(view.sizes, dtypes.to_jax(view.dtype))

    def _write(self, index: int, base: Any, value: Any) -> jax.Array:
        shape, dtype, *_ = self._bases[index]
        view = self._views[index]
        if base is None:
            base = jnp.zeros(shape, dtypes.to_jax(dtype))
        return write(base, as_dtype(value, view.dtype), view)


def as_dtype(value: Any, dtype: torch.dtype) -> jax.Array:
    """Return a value as it is stored in a tensor of this dtype."""
    if jnp.iscomplexobj(value) and not dtype.is_complex:
        value = jnp.real(value)
    return jnp.asarray(value).astype(dtypes.to_jax(dtype))


# In-place operators that overwrite a tensor without reading its old values.
_OVERWRITING = frozenset(
    {
        "aten::bernoulli_",
        "aten::cauchy_",
        "aten::copy_",
        "aten::exponential_",
        "aten::fill_",
        "aten::geometric_",
        "aten::log_normal_",
        "aten::normal_",
        "aten::random_",
        "aten::uniform_",
        "aten::zero_",
    }
)

# In-place operators that usually write to few elements, which other arguments select.
_WRITING_FEW = frozenset(
    {
        "aten::_index_put_impl_",
        "aten::_unsafe_index_put_",
        "aten::index_add_",
        "aten::index_copy_",
        "aten::index_fill_",
        "aten::index_put_",
        "aten::index_reduce_",
        "aten::put_",
        "aten::scatter_",
        "aten::scatter_add_",
        "aten::scatter_reduce_",
    }
)


def _placement(call: NormalizedCall, device: int) -> Placement:
    numbers = [base[3] for base in call.bases]
    target = _resharding(call)
    numbers = numbers if target is None else [*numbers, target]
    return Placement.of(platform.device(device), numbers)


def _resharding(call: NormalizedCall) -> int | None:
    """Return the sharding that a `torch_google::shard` call requests; None for other operators."""
    name = call.op.name()
    return shardings.parse(call.args[1]) if name.startswith("torch_google::shard") else None


def _is_ours(call: NormalizedCall) -> bool:
    """Return whether the versions of torch and this package determine the call's lowering."""
    return lowerings.is_pinned(call.pure.op)


def _note_of(results: Sequence[NewTensor | int | None], random: bool) -> list[Any]:
    """Return the metadata (a note) to store with an executable in the cache, as a JSON value."""
    return [
        [
            [list(r.sizes), list(r.strides), list(r.natural), str(r.dtype).removeprefix("torch.")]
            if isinstance(r, NewTensor)
            else r
            for r in results
        ],
        random,
    ]


def _results_of(note: Any) -> tuple[tuple[NewTensor | int | None, ...], bool, list[int]]:
    """Return the results, the `random` flag and the result shardings from a note (see `_note_of`).

    There are no shardings unless the program runs on a mesh. Raises KeyError, ValueError,
    TypeError, AttributeError or RuntimeError if the note is invalid.
    """
    results, random, *texts = note
    if not isinstance(random, bool):
        raise ValueError(f"{random!r} is not bool")
    parsed = tuple(None if result is None else _result_of(result) for result in results)
    return parsed, random, [shardings.parse(text) for text in (texts[0] if texts else ())]


def _result_of(note: Any) -> NewTensor | int:
    if isinstance(note, int):
        return note
    *shapes, dtype = note
    sizes, strides, natural = (tuple(map(int, shape)) for shape in shapes)
    return NewTensor(sizes, strides, natural, _dtype(dtype))


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is not a dtype")
    return dtype


def _number_dtype(number: Number | torch.Tensor) -> Any:
    """Return the dtype of a CPU scalar tensor, or None for a Number, which has no dtype."""
    return dtypes.to_jax(number.dtype) if isinstance(number, torch.Tensor) else None


def _example(number: Number | torch.Tensor) -> float | int:
    if isinstance(number, Number):
        return 0.0 if isinstance(number.value, float) else 0
    return 0.0 if number.is_floating_point() else 0


def fingerprint_of(call: NormalizedCall, *, placed: bool = True) -> str:
    """Return a string that identifies a call's program in every process.

    It contains the same information as the C++ cache key, except for the device: the compile cache
    adds the devices. If `placed` is False, the string also omits the offsets of views.
    """
    boxes = list(dict.fromkeys(base[2] for base in call.bases))
    tensors = iter(zip(call.views, call.bases, strict=True))

    def word(leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu":
            value = leaf.tolist() if is_constant(leaf) else "number"
            return f"{leaf.dtype} {value}"
        if isinstance(leaf, torch.Tensor):
            view, (shape, dtype, box, number) = next(tensors)
            view = view if placed else replace(view, offset=0)
            sharding = f" {shardings.text_of(number)}" if number else ""
            return f"{view} of {shape} {dtype} {boxes.index(box)}{sharding}"
        if isinstance(leaf, Number):
            return f"Number {type(leaf.value).__name__}"
        return "generator" if isinstance(leaf, torch.Generator) else repr(leaf)

    arguments = [[word(leaf) for leaf in pytree.tree_leaves(arg)] for arg in call.args]
    kind = f"precision {_C.precision()} default {dtypes.default_dtype()}"
    return f"{call.op.name()} tpu {kind} {arguments}"
