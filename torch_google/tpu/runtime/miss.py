# SPDX-License-Identifier: Apache-2.0
"""What happens when an operator is called in a way for which there is no program yet.

C++ calls `miss` with the operator's arguments in the order of its schema, where a Number is a Python
number that will be an input. It remembers the Compiled that comes back for all calls of this kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax.sharding import SingleDeviceSharding
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, dtypes
from torch_google.tpu.program import (
    BakedNumber,
    Number,
    Program,
    constant,
    lower_op,
    mutation,
)
from torch_google.tpu.runtime import fallback, host_shapes, metrics, overlap, platform
from torch_google.tpu.runtime.operators import takes_numbers
from torch_google.tpu.runtime.strides import View, covers, natural, read, write

# (natural shape, dtype, identity) of the storage of a tensor.
Base = tuple[tuple[int, ...], torch.dtype, int]


@dataclass(frozen=True)
class Fresh:
    """A result that is a new tensor; `natural` is the shape of its array."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    natural: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Compiled:
    """A program. Tensors are known by their position among those of all arguments.

    `function` takes the arrays of `inputs`, then every number, then (if `random`) a seed and an
    offset. It returns new arrays for `written`, then one for each Fresh in `results`. A result that
    is an int is the argument itself, one that is None is undefined.
    """

    function: Any
    inputs: tuple[int, ...]
    written: tuple[int, ...]
    results: tuple[Fresh | int | None, ...]
    random: bool


def miss(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> Compiled | list[Any] | None:
    """Return a program, or the results where the host made them, or None: look again.

    Raises NotImplementedError for an operator that has neither, and what torch's own kernels raise
    for wrong arguments.
    """
    with (
        torch._C.DisableTorchFunction(),
        torch._C._AutoDispatchBelowAutograd(),
        torch.no_grad(),
    ):
        if takes_numbers(op):
            _C.set_lift(op.name(), True)
            return None
        try:
            return _miss(op, args, bases, device)
        except BakedNumber:
            _bake(op)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerBoolConversionError):
            if not any(isinstance(leaf, Number) for leaf in pytree.tree_leaves(args)):
                raise
            _bake(op)
        except NotImplementedError as error:
            if not _C.thread_fallback():
                raise fallback.refusal(op, args, error) from error
            return fallback.run(op, args)
        except (RuntimeError, IndexError, ValueError, TypeError):
            # The kernels for meta tensors have words of their own: the CPU's are the known ones.
            fallback.rehearse(op, args)
            raise
        return None


def _bake(op: OpOverload) -> None:
    takes_numbers(op, forget=True)
    _C.set_lift(op.name(), False)


def _miss(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> Compiled | list[Any] | None:
    if host_shapes.has_mask(op, args):
        return [host_shapes.index(*args)]
    call = Call(op, args, bases)
    overlap.check(op, call.views, [base[2] for base in bases], call.written())
    if call.check():
        return None
    program = lower_op(call.pure.op, *call.pure_arguments())
    if program.host_shape:
        return host_shapes.run(program, call)
    return call.compile(program, device)


class Call:
    """One call of an operator, in terms of the pure one behind it."""

    def __init__(self, op: OpOverload, args: list[Any], bases: list[Base]) -> None:
        self.op = op
        self.args = args
        self.bases = bases
        self.pure = mutation(op)
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Number | torch.Tensor] = []
        self.constants: list[torch.Tensor] = []
        # For each argument of the operator, where its leaves come from.
        self._sources = [
            [self._source(leaf) for leaf in pytree.tree_leaves(arg) if _is_input(leaf)]
            for arg in args
        ]
        self.views = [View.of(tensor) for tensor in self.tensors]

    def _source(self, leaf: Any) -> tuple[str, int]:
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu":
            self.tensors.append(leaf)
            return "tensor", len(self.tensors) - 1
        if isinstance(leaf, torch.Tensor) and leaf.is_complex():
            self.constants.append(leaf)
            return "constant", len(self.constants) - 1
        self.numbers.append(leaf)
        return "number", len(self.numbers) - 1

    def check(self) -> bool:
        """Let torch's own kernel judge what is written; give out= arguments their sizes.

        Raises what that kernel raises. Returns whether any argument was resized.
        """
        if not self.pure.written:
            return False
        metas = [_as_meta(arg) for arg in self.args]
        names = [argument.name for argument in self.op._schema.arguments]
        positional = [
            meta
            for meta, argument in zip(metas, self.op._schema.arguments, strict=True)
            if not argument.kwarg_only
        ]
        named = dict(zip(names, metas, strict=True))
        try:
            self.op(
                *positional,
                **{a.name: named[a.name] for a in self.op._schema.arguments if a.kwarg_only},
            )
        except NotImplementedError:
            return False  # without a kernel for meta tensors, the pure operator judges
        resized = False
        for position in self.pure.dropped:
            for out, meta in zip(
                pytree.tree_leaves(self.args[position]),
                pytree.tree_leaves(metas[position]),
                strict=True,
            ):
                if out.shape != meta.shape:
                    out.resize_(meta.shape)
                    if meta.stride() != out.stride():
                        out.as_strided_(meta.shape, meta.stride())
                    resized = True
        return resized

    def pure_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the pure operator."""
        return self._pure(self.args)

    def _pure(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        given = {
            argument.name: value
            for position, (argument, value) in enumerate(
                zip(self.op._schema.arguments, values, strict=True)
            )
            if position not in self.pure.dropped
        }
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in self.pure.op._schema.arguments:
            if argument.name not in given:
                continue
            if argument.kwarg_only:
                kwargs[argument.name] = given[argument.name]
            else:
                args.append(given[argument.name])
        if self.pure.takes_dtype and values is self.args:
            kwargs["dtype"] = self.args[self.pure.written[0]].dtype
        return args, kwargs

    def sources(self) -> list[tuple[str, int]]:
        """Return where the inputs of the pure operator's program come from, in its order."""
        args, kwargs = self._pure(self._sources)
        return [source for group in (*args, *kwargs.values()) for source in group]

    def written(self) -> list[int]:
        """Return the positions of the tensors that are written to."""
        return [source[1] for at in self.pure.written for source in self._sources[at]]

    def results(self, program: Program) -> list[Fresh | int | None]:
        """Return what the operator returns."""
        schema = self.op._schema
        results: list[Fresh | int | None] = []
        fresh = iter(program.metas[: self._plain(program)])
        by_alias = {
            name: source[1]
            for argument, sources in zip(schema.arguments, self._sources, strict=True)
            if argument.alias_info is not None and argument.alias_info.is_write
            for name in argument.alias_info.before_set
            for source in sources[:1]
        }
        if not any(r.alias_info is not None for r in schema.returns):
            return [_fresh(meta) for meta in fresh]
        for returned in schema.returns:
            if returned.alias_info is None:
                results.append(_fresh(next(fresh)))
            else:
                results.append(by_alias[next(iter(returned.alias_info.before_set))])
        return results

    def _plain(self, program: Program) -> int:
        return len(program.metas) - len(self.written())

    def compile(self, program: Program, device: int) -> Compiled:
        """Return the compiled program of this call."""
        written = self.written()
        results = self.results(program)
        plain = self._plain(program)
        # Of several tensors that are written in one storage, the first stands for all.
        boxes = {self.bases[at][2]: at for at in reversed(written)}
        targets = [boxes[identity] for identity in dict.fromkeys(self.bases[a][2] for a in written)]
        sources = self.sources()
        valueless = self._valueless()
        inputs = [
            at
            for at in range(len(self.tensors))
            if (("tensor", at) in sources and at not in valueless)
            or (at in targets and not self._overwrites(at, written))
        ]
        counted = len(inputs)

        def function(*values: Any) -> tuple[jax.Array, ...]:
            arrays = dict(zip(inputs, values, strict=False))
            numbers = values[counted : counted + len(self.numbers)]
            key = None
            if program.random:
                seed, offset = values[-2:]
                key = jax.random.fold_in(jax.random.key(seed), offset)
            given: list[Any] = []
            for kind, at in sources:
                if kind == "tensor":
                    given.append(self._value(at, arrays))
                elif kind == "number":
                    given.append(self._number(at, numbers[at]))
                else:
                    given.append(constant(self.constants[at]))
            made = program(given, key)
            new = dict(arrays)
            for at, value in zip(written, made[plain:], strict=True):
                target = boxes[self.bases[at][2]]
                new[target] = self._write(at, new.get(target), value)
            fresh = [
                value.transpose(natural(meta.shape, meta.stride()).order)
                for value, meta in zip(made[:plain], program.metas[:plain], strict=True)
                if meta is not None
            ]
            return tuple([new[at] for at in targets] + fresh)

        sharding = SingleDeviceSharding(platform.device(device))
        specs: list[Any] = [
            jax.ShapeDtypeStruct(
                self.bases[at][0], dtypes.to_jax(self.bases[at][1]), sharding=sharding
            )
            for at in inputs
        ]
        specs += [_example(number) for number in self.numbers]
        specs += [0, 0] if program.random else []
        function.__name__ = self.op.name().replace("::", "_").replace(".", "_")
        with metrics.compiling():
            compiled = jax.jit(function, out_shardings=sharding).lower(*specs).compile()
        return Compiled(
            compiled, tuple(inputs), tuple(targets), tuple(results), bool(program.random)
        )

    def _valueless(self) -> set[int]:
        """Return the tensors of which only sizes and dtype count."""
        if self.op._schema.name in _OVERWRITING:
            return {0}
        return set()

    def _overwrites(self, target: int, written: Sequence[int]) -> bool:
        box = self.bases[target][2]
        elements = 1
        for size in self.bases[target][0]:
            elements *= size
        first = next(at for at in written if self.bases[at][2] == box)
        same = self.views[first].dtype == self.bases[target][1]
        return same and covers(self.views[first], elements)

    def _value(self, at: int, arrays: dict[int, Any]) -> jax.Array:
        if at in arrays:
            return read(arrays[at], self.views[at])
        view = self.views[at]
        return jnp.zeros(view.sizes, dtypes.to_jax(view.dtype))

    def _number(self, at: int, value: Any) -> Any:
        number = self.numbers[at]
        if isinstance(number, torch.Tensor):
            return jnp.asarray(value).astype(dtypes.to_jax(number.dtype))
        return value

    def _write(self, at: int, base: Any, value: Any) -> jax.Array:
        shape, dtype, _ = self.bases[at]
        view = self.views[at]
        if base is None:
            base = jnp.zeros(shape, dtypes.to_jax(dtype))
        if jnp.iscomplexobj(value) and not view.dtype.is_complex:
            value = jnp.real(value)
        return write(base, jnp.asarray(value).astype(dtypes.to_jax(view.dtype)), view)


# In-place operators that do not look at what they replace.
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


def _is_input(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor | Number)


def _example(number: Number | torch.Tensor) -> float | int:
    if isinstance(number, Number):
        return 0.0 if isinstance(number.value, float) else 0
    return 0.0 if number.is_floating_point() else 0


def _fresh(meta: torch.Tensor | None) -> Fresh | None:
    if meta is None:
        return None
    sizes = tuple(meta.shape)
    lies = natural(sizes, meta.stride())
    return Fresh(sizes, lies.strides, lies.shape, meta.dtype)


def _as_meta(arg: Any) -> Any:
    def one(leaf: Any) -> Any:
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "tpu":
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
        if isinstance(leaf, torch.Generator):
            return None
        if isinstance(leaf, torch.device):
            return torch.device("meta")
        return leaf

    return pytree.tree_map(one, arg)
