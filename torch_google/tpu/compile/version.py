# SPDX-License-Identifier: Apache-2.0
"""The program of a graph for sizes that are known, and how a call of it goes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import torch
from torch.fx import Node

from torch_google.tpu.compile.carrier import Carrier, Result, carrier_of
from torch_google.tpu.compile.evaluate import Evaluation
from torch_google.tpu.compile.options import Options
from torch_google.tpu.compile.signature import Signature
from torch_google.tpu.compile.symbols import Symbols


@dataclass(frozen=True)
class _Input:
    """A result that is an argument itself."""

    place: int


@dataclass(frozen=True)
class _Made:
    """A result that is a new tensor, over one of the arrays that the program returns."""

    position: int


class Version:
    """A compiled program. Call it with a graph's arguments, and the arrays that these stand for."""

    def __init__(
        self,
        signature: Signature,
        args: Sequence[Any],
        arrays: Sequence[Any],
        options: Options,
    ) -> None:
        self._signature = signature
        self._args = list(args)
        self._symbols = Symbols(signature.metas, args)
        self._carriers = signature.carriers
        self._layouts: list[Hashable] = [
            None if carrier is None else carrier.layout(value)
            for carrier, value in zip(self._carriers, args, strict=True)
        ]
        self._inputs = [
            place
            for place, carrier in enumerate(self._carriers)
            if carrier is not None or place in signature.numbers
        ]
        self._written = list(signature.written)
        self._donated = [
            place
            for place in self._written
            if options.donate and signature.metas[place].device == signature.device
        ]
        self._made: dict[Node, Result] = {}
        self._results = [self._result(output) for output in signature.outputs]
        self._fresh = list(self._made.values())
        self._order = [r.position for r in self._results if isinstance(r, _Made)]
        with _precision(options.precision or signature.carrier().precision()):
            self._run = self._compile(arrays)
        # Only what is baked is still of use, and tensors must not be kept alive.
        self._args.clear()

    def __call__(self, args: Sequence[Any], arrays: list[Any], carrier: Carrier) -> list[Any]:
        for place in self._donated:
            if not carrier.is_spare(args[place], arrays[place]):
                arrays[place] = arrays[place].copy()
                carrier.count("copy")
        given = [arrays[place] for place in self._inputs]
        if self._signature.random:
            given += carrier.draw(self._signature.device)
        made = self._run(*given)
        carrier.count("call")
        count = len(self._written)
        for place, array in zip(self._written, made[:count], strict=True):
            own = self._carriers[place]
            assert own is not None
            own.store(args[place], array)
        tensors = iter(self._give(made[count:], carrier))
        return [
            next(tensors)
            if isinstance(result, _Made)
            else args[result.place]
            if isinstance(result, _Input)
            else result
            for result in self._results
        ]

    def _result(self, output: Any) -> Any:
        """Return where a result comes from: a value that is none of ours is the result itself."""
        if not isinstance(output, Node):
            return output
        meta = output.meta.get("val")
        place = self._signature.place(output)
        if place is not None and place not in self._signature.written:
            return _Input(place)
        if not isinstance(meta, torch.Tensor):
            return self._symbols.concrete(meta)
        if output not in self._made:
            self._made[output] = Result(
                self._symbols.sizes(meta.shape),
                self._symbols.sizes(meta.stride()),
                meta.dtype,
                meta.device,
            )
        return _Made(list(self._made).index(output))

    def _give(self, arrays: Sequence[jax.Array], carrier: Carrier) -> list[torch.Tensor]:
        results = [self._fresh[position] for position in self._order]
        ordered = [arrays[position] for position in self._order]
        if all(result.device == self._signature.device for result in results):
            return carrier.give(ordered, results)
        return [
            carrier_of(result.device).give([array], [result])[0]
            for array, result in zip(ordered, results, strict=True)
        ]

    def _compile(self, arrays: Sequence[Any]) -> Any:
        signature = self._signature
        carrier = signature.carrier()
        sharding = carrier.sharding(signature.device)
        specs = [
            arrays[place]
            if place in signature.numbers
            else jax.ShapeDtypeStruct(arrays[place].shape, arrays[place].dtype, sharding=sharding)
            for place in self._inputs
        ]
        specs += [0, 0] if signature.random else []
        donated = tuple(self._inputs.index(place) for place in self._donated)

        def lower() -> Any:
            jitted = jax.jit(self._function, donate_argnums=donated, out_shardings=sharding)
            return jitted.lower(*specs)

        carrier.count("compile")
        return carrier.compile("torch.compile", lower)

    def _function(self, *given: Any) -> tuple[Any, ...]:
        signature = self._signature
        key = None
        if signature.random:
            key = jax.random.fold_in(jax.random.key(given[-2]), given[-1])
        values = list(self._args)
        for place, array in zip(self._inputs, given, strict=False):
            carrier = self._carriers[place]
            values[place] = array if carrier is None else carrier.read(array, self._layouts[place])
        evaluation = Evaluation(signature.graph, self._symbols, key)
        evaluation.run(values)
        written = []
        for place, node in signature.written.items():
            carrier = self._carriers[place]
            assert carrier is not None
            written.append(
                carrier.write(
                    given[self._inputs.index(place)], evaluation.values[node], self._layouts[place]
                )
            )
        fresh = [
            carrier_of(result.device).pack(evaluation.values[node], result)
            for node, result in self._made.items()
        ]
        return (*written, *fresh)


def _precision(name: str | None) -> AbstractContextManager[Any]:
    return nullcontext() if name is None else jax.default_matmul_precision(name)
