# SPDX-License-Identifier: Apache-2.0
"""Operator calls, rewritten to use the out-of-place variant of the operator (the pure operator)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes
from torch_google.tpu.program import Number, accepted_arguments, apply, mutation
from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.strides import View, natural

if TYPE_CHECKING:
    from torch_google.tpu.program import LoweredProgram

# Describes a tensor's storage: the shape of its array, its dtype, its identity, and its sharding's
# index.
Base = tuple[tuple[int, ...], torch.dtype, int, int]


# On the CPU, the out= variants of these kernels copy a finished result to `out`. If they resize
# `out`, it is therefore contiguous, whatever the strides of the result.
_COPIES = ("aten::_fft_", "aten::cholesky.out")


# The out= variants of these kernels compute in the precision of `out`.
_OF_ANOTHER_PRECISION = frozenset({"aten::std.correction_out", "aten::var.correction_out"})


@contextlib.contextmanager
def as_a_kernel() -> Iterator[None]:
    """Bypass `__torch_function__` modes, tensor subclasses and autograd, as in a kernel."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._AutoDispatchBelowAutograd(),
        torch.no_grad(),
    ):
        yield


@dataclass(frozen=True)
class NewTensor:
    """A result that is a new tensor. `natural` is the shape of the array that stores it."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    natural: tuple[int, ...]
    dtype: torch.dtype


class NormalizedCall:
    """An operator call, split into an out-of-place operator, inputs, and tensors to write to."""

    def __init__(self, op: OpOverload, args: list[Any], bases: list[Base]) -> None:
        self.op = op
        self.bases = bases
        self.pure = mutation(op)
        self.args = self._with_dtype(args) if self.pure.takes_dtype else args
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Number | torch.Tensor] = []
        self.constants: list[torch.Tensor] = []
        # For each argument, the sources of its pytree leaves: (kind, index) as in sources().
        self._sources = [
            [self._source(leaf) for leaf in pytree.tree_leaves(arg) if _is_input(leaf)]
            for arg in args
        ]
        # The dtype to which all inputs are cast, or None if they keep their own dtypes.
        self.read_as = self._read_as()
        # The sizes of the out= arguments according to torch's meta kernel, if the operator has one.
        self._sizes: dict[int, torch.Size] = {}
        self.views = [View.of(tensor) for tensor in self.tensors]
        for view in self.views:
            dtypes.check(view.dtype, platform.name())

    def _with_dtype(self, args: list[Any]) -> list[Any]:
        """Return the arguments. Set a missing dtype= to that of the tensor to be written to."""
        target = args[self.pure.written[0]]
        return [
            target.dtype if argument.name == "dtype" and value is None else value
            for argument, value in zip(self.op._schema.arguments, args, strict=True)
        ]

    def _read_as(self) -> torch.dtype | None:
        if self.op.name() not in _OF_ANOTHER_PRECISION:
            return None
        own, target = (self.args[index].dtype for index in (0, self.pure.written[0]))
        both = own.is_floating_point and target.is_floating_point
        return target if both and own != target else None

    def _source(self, leaf: Any) -> tuple[str, int]:
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu":
            self.tensors.append(leaf)
            return "tensor", len(self.tensors) - 1
        if isinstance(leaf, torch.Tensor) and is_constant(leaf):
            # Copy the scalar, because its value may change before the program is traced.
            self.constants.append(leaf.clone())
            return "constant", len(self.constants) - 1
        self.numbers.append(leaf)
        return "number", len(self.numbers) - 1

    def check(self) -> None:
        """Run torch's meta kernel to check the arguments to write to. Raises the kernel's errors.

        This also records the sizes of out= arguments for `resize`.
        """
        if not self.pure.written:
            return
        metas = accepted_arguments(self.op, [_as_meta(arg) for arg in self.args], "meta")
        try:
            apply(self.op, metas)
        except NotImplementedError:
            return  # without a meta kernel, lowering the operator checks the arguments
        for position in self.pure.dropped:
            sources = [source[1] for source in self._sources[position]]
            shapes = [meta.shape for meta in pytree.tree_leaves(metas[position])]
            self._sizes.update(zip(sources, shapes, strict=True))

    def resize(self, program: LoweredProgram) -> bool:
        """Resize out= arguments as torch does. Return whether any of them was resized.

        `program` is the program of the out-of-place operator. Its meta tensors have the sizes and
        strides of the results.
        """
        outs = self._outs()
        metas = program.metas[self.plain(program) :]
        resized = False
        for index, meta in zip(self.written(), metas, strict=True):
            out = self.tensors[index]
            if meta is None:
                continue
            if index not in outs:
                self._refuse_other_shape(out, meta)
                continue
            sizes = self._sizes.get(index, meta.shape)
            if out.shape != sizes:
                out.resize_(sizes)
                own = not self.op.name().startswith(_COPIES)
                if own and meta.shape == sizes and meta.stride() != out.stride():
                    out.resize_(_extent(meta))
                    out.as_strided_(meta.shape, meta.stride())
                resized = True
        return resized

    def outs_to_resize(self, program: LoweredProgram) -> list[int]:
        """Return the indices of the out= arguments that `resize` will resize."""
        outs = self._outs()
        metas = program.metas[self.plain(program) :]
        return [
            index
            for index, meta in zip(self.written(), metas, strict=True)
            if index in outs and meta is not None
            if self.tensors[index].shape != self._sizes.get(index, meta.shape)
        ]

    def resized_inputs(self, program: LoweredProgram) -> set[int]:
        """Return the indices of inputs that share a storage with an out= argument to be resized."""
        outs = self._outs()
        storages = {self.bases[index][2] for index in self.outs_to_resize(program)}
        inputs = (index for index in range(len(self.tensors)) if index not in outs)
        return {index for index in inputs if self.bases[index][2] in storages}

    def writes_input(self, inputs: set[int]) -> bool:
        """Return whether one of these inputs is also a tensor that the call writes to."""
        targets = {id(self.tensors[index]) for index in self.written()}
        return any(id(self.tensors[index]) in targets for index in inputs)

    def of_copies(self, copied: set[int]) -> list[Any]:
        """Run the operator on copies of these inputs, so that the write does not change them."""
        copies = {id(self.tensors[index]): self.tensors[index].clone() for index in copied}

        def one(leaf: Any) -> Any:
            if isinstance(leaf, Number):
                return leaf.value
            return copies.get(id(leaf), leaf)

        values = [
            pytree.tree_map(one, value) if argument.alias_info is None else value
            for argument, value in zip(self.op._schema.arguments, self.args, strict=True)
        ]
        results = apply(self.op, values)
        return list(results) if isinstance(results, list | tuple) else [results]

    def _outs(self) -> set[int]:
        return {source[1] for position in self.pure.dropped for source in self._sources[position]}

    def _refuse_other_shape(self, target: torch.Tensor, result: torch.Tensor) -> None:
        if target.shape != result.shape:
            raise RuntimeError(
                f"{self.op.name()}: a tensor of shape {list(target.shape)} cannot be overwritten by a "
                f"result of shape {list(result.shape)}. Call the out-of-place variant"
            )

    def pure_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the out-of-place operator.

        Tensors are replaced with meta tensors, so that no values stay alive.
        """
        args, kwargs = self._pure(self.args)

        def one(leaf: Any) -> Any:
            meta = _stand_in(leaf)
            return meta if self.read_as is None or meta is leaf else meta.to(self.read_as)

        return pytree.tree_map(one, args), pytree.tree_map(one, kwargs)

    def _pure(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        by_name = {
            argument.name: value
            for position, (argument, value) in enumerate(
                zip(self.op._schema.arguments, values, strict=True)
            )
            if position not in self.pure.dropped
        }
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in self.pure.op._schema.arguments:
            if argument.name not in by_name:
                continue
            if argument.kwarg_only:
                kwargs[argument.name] = by_name[argument.name]
            else:
                args.append(by_name[argument.name])
        if self.pure.takes_dtype and values is self.args:
            kwargs["dtype"] = self.args[self.pure.written[0]].dtype
        return args, kwargs

    @property
    def argument_sources(self) -> list[list[tuple[str, int]]]:
        """Return the sources, as in `sources`, of the inputs in each argument of the operator."""
        return self._sources

    def arranged(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the out-of-place operator.

        `values` has one item for each argument of the operator.
        """
        args, kwargs = self._pure(values)
        if self.pure.takes_dtype:
            kwargs["dtype"] = self.args[self.pure.written[0]].dtype
        return args, kwargs

    def sources(self) -> list[tuple[str, int]]:
        """Return the source, (kind, index), of each input of the out-of-place operator's program.

        Depending on `kind`, the index is into `tensors`, `numbers` or `constants`.
        """
        args, kwargs = self._pure(self._sources)
        return [source for group in (*args, *kwargs.values()) for source in group]

    def written(self) -> list[int]:
        """Return the indices of the written tensors. Raises RuntimeError if one is on the CPU."""
        sources = [source for index in self.pure.written for source in self._sources[index]]
        if any(kind != "tensor" for kind, _ in sources):
            raise RuntimeError(
                f"{self.op.name()}: Expected all tensors to be on the same device, but the written "
                "tensor is on the CPU, and other arguments or the generator are on tpu. Move one with "
                ".to(), or pass a CPU generator"
            )
        return [index for _, index in sources]

    def written_as(self, program: LoweredProgram) -> list[tuple[torch.Tensor, torch.dtype]]:
        """Return each tensor to write to, paired with the dtype of the result computed for it."""
        metas = program.metas[self.plain(program) :]
        return [
            (self.tensors[index], meta.dtype)
            for index, meta in zip(self.written(), metas, strict=True)
            if meta is not None
        ]

    def results(self, program: LoweredProgram) -> list[NewTensor | int | None]:
        """Return the operator's results. Each is a NewTensor, the index of an argument, or None."""
        schema = self.op._schema
        results: list[NewTensor | int | None] = []
        fresh = iter(program.metas[: self.plain(program)])
        by_alias = {
            name: source[1]
            for argument, sources in zip(schema.arguments, self._sources, strict=True)
            if argument.alias_info is not None and argument.alias_info.is_write
            for name in argument.alias_info.before_set
            for source in sources[:1]
        }
        if not any(r.alias_info is not None for r in schema.returns):
            return [_new_tensor(meta) for meta in fresh]
        for returned in schema.returns:
            if returned.alias_info is None:
                results.append(_new_tensor(next(fresh)))
            else:
                results.append(by_alias[next(iter(returned.alias_info.before_set))])
        return results

    def plain(self, program: LoweredProgram) -> int:
        """Return the number of results that are new tensors. These come before the written ones."""
        return len(program.metas) - len(self.written())


def _extent(meta: torch.Tensor) -> int:
    """Return the number of storage elements from a tensor's first to its last element.

    This may exceed numel(), because LAPACK may pad the columns of a result.
    """
    if not meta.numel():
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(meta.shape, meta.stride(), strict=True))


def is_constant(number: torch.Tensor) -> bool:
    """Return whether a CPU scalar's value must be in the key, because it cannot be an input."""
    return number.is_complex() or number.dtype == torch.uint64


def _is_input(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor | Number)


def _new_tensor(meta: torch.Tensor | None) -> NewTensor | None:
    if meta is None:
        return None
    dtypes.check(meta.dtype, platform.name())
    sizes = tuple(meta.shape)
    layout = natural(sizes, meta.stride())
    return NewTensor(sizes, layout.strides, layout.shape, meta.dtype)


def _as_meta(arg: Any) -> Any:
    def one(leaf: Any) -> Any:
        if isinstance(leaf, Number):
            return leaf.value
        if isinstance(leaf, torch.Generator):
            return None
        if isinstance(leaf, torch.device):
            return torch.device("meta")
        return _stand_in(leaf)

    return pytree.tree_map(one, arg)


def _stand_in(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) and leaf.device.type == "tpu":
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
    return leaf
