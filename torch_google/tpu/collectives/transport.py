# SPDX-License-Identifier: Apache-2.0
"""The `xla` transport, which moves the data of collectives between devices with XLA's collectives.

A collective is one program over the devices of the group. On TPUs, all ranks must run the same
program, although their tensors may differ in shape and strides. If the tensors have the same layout
on all ranks, the program can include the copies between the tensors and flat arrays. Otherwise,
each rank performs these copies in separate programs, before and after the collective.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

from torch_google.tpu import _C
from torch_google.tpu.collectives.flat_collectives import FlatCollective
from torch_google.tpu.collectives.patterns import Signature, Target, flat_name
from torch_google.tpu.collectives.programs import Programs
from torch_google.tpu.runtime import arrays, errors, platform
from torch_google.tpu.runtime.strides import View

# The maximum number of distinct calls whose programs a group caches. It evicts those of the least
# recently used call.
_MOST_PLANS = 256


def of_group(store: Any, rank: int, size: int) -> Transport:
    """Return the transport for a new process group. This rank uses its current device.

    The ranks exchange the ids of their devices through the store, so this function waits for all of
    them.
    """
    index = _C.current_device()
    store.set(f"tpu/device/{rank}", str(platform.device(index).id))
    ids = [store.get(f"tpu/device/{peer}").decode() for peer in range(size)]
    devices = {str(device.id): device for device in jax.devices(platform.name())}
    return Transport(Programs([devices[each] for each in ids], index))


class _Arguments(NamedTuple):
    inputs: list[jax.Array]
    olds: list[jax.Array]  # the old arrays of targets in which some elements stay unchanged
    factors: list[np.ndarray]  # the factor of PREMUL_SUM; empty for other reductions


_Plan = Callable[[_Arguments], list[jax.Array]]


class Transport:
    """A transport that runs a group's collectives.

    csrc/device_transfer.cpp calls it on the group's thread.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._plans: OrderedDict[tuple[Signature, bool], _Plan] = OrderedDict()

    def part(self, ranks: Sequence[int]) -> Transport:
        """Return a transport for some of the group's ranks, in the given order."""
        devices = [self._programs.devices[rank] for rank in ranks]
        return Transport(Programs(devices, self._programs.index))

    def prepare(
        self,
        name: str,
        reduction: str,
        factor: Any,
        root: int,
        inputs: Sequence[tuple[jax.Array, tuple[Any, ...]]],
        targets: Sequence[tuple[jax.Array | None, tuple[int, ...], torch.dtype, int]],
        outputs: Sequence[tuple[int, tuple[Any, ...]]],
        splits: tuple[Sequence[int], Sequence[int]],
    ) -> Callable[[int, int], list[jax.Array]]:
        """Wait for the inputs of a collective, and return a function that runs it.

        A view is a tuple of the arguments to `View`. A target is a tuple of the old array, shape,
        dtype and device of a storage. The old array is None unless some elements stay unchanged.

        The returned function takes the size in bytes of the largest chunk that any rank sends, and
        whether all ranks have the same views. It waits for the targets' new arrays and returns
        them.
        """
        arguments = _Arguments(
            inputs=[self._local(array) for array, _ in inputs],
            olds=[self._local(old) for old, *_ in targets if old is not None],
            factors=[] if factor is None else [_as_array(factor)],
        )
        for array in (*arguments.inputs, *arguments.olds):
            errors.wait(array)
        views = tuple(View(*view) for _, view in inputs)
        written = tuple((index, View(*view)) for index, view in outputs)
        shown = [*views, *(view for _, view in written)]

        def run(largest: int, same: int) -> list[jax.Array]:
            call = Signature(
                name=name,
                collective=FlatCollective(
                    flat_name(name), reduction, root, len(self._programs.devices)
                ),
                inputs=tuple((array.shape, str(array.dtype)) for array in arguments.inputs),
                views=views,
                targets=tuple(
                    Target(tuple(shape), dtype, old is not None) for old, shape, dtype, _ in targets
                ),
                outputs=written,
                splits=(tuple(splits[0]), tuple(splits[1])),
                factors=tuple(each.shape for each in arguments.factors),
                largest=largest // shown[0].dtype.itemsize,
            )
            results = self._plan(call, arguments, bool(same))(arguments)
            for result in results:
                errors.wait(result)
            return [
                self._on(result, device)
                for result, (*_, device) in zip(results, targets, strict=True)
            ]

        return run

    def _local(self, array: jax.Array) -> jax.Array:
        """Move an array to this rank's device in the group, if it is on another device."""
        index = self._programs.index
        if array.devices() == {platform.device(index)}:
            return array
        return arrays.on_one_device(array, index)

    def _on(self, array: jax.Array, index: int) -> jax.Array:
        """Move an array from this rank's device in the group to the device with index `index`."""
        if index == self._programs.index:
            return array
        return jax.device_put(array, platform.device(index))

    def _plan(self, call: Signature, arguments: _Arguments, same: bool) -> _Plan:
        key = (call, same)
        plan = self._plans.pop(key, None)
        if plan is None:
            plan = self._new_plan(call, arguments, same)
            while len(self._plans) >= _MOST_PLANS:
                self._plans.popitem(last=False)
        self._plans[key] = plan
        return plan

    def _new_plan(self, call: Signature, arguments: _Arguments, same: bool) -> _Plan:
        inputs, olds, factors = arguments
        flat = jax.eval_shape(call.pack, inputs, *factors)
        results = call.collective.results(flat)
        packs = bool(factors) or not _is_identity(call.pack, inputs)
        unpacks = not _is_identity(lambda arrays: call.unpack(arrays, olds), results)
        if same and (packs or unpacks) and not factors and _spans_ranks(call, arguments):
            return self._one_program(call, arguments)
        programs = self._programs
        pack = collective = unpack = None
        if packs:
            pack = programs.local(
                f"pack {call.name}",
                lambda *arrays: call.pack(arrays[: len(inputs)], *arrays[len(inputs) :]),
                call,
                [*inputs, *factors],
            )
        if flat:
            collective = programs.over_ranks(
                call.name,
                lambda *arrays: call.collective(arrays),
                (call.collective, [(each.shape, str(each.dtype)) for each in flat]),
                flat,
            )
        if unpacks:
            unpack = programs.local(
                f"unpack {call.name}",
                lambda *arrays: call.unpack(arrays[: len(results)], arrays[len(results) :]),
                call,
                [*results, *olds],
            )

        def run(arguments: _Arguments) -> list[jax.Array]:
            values = arguments.inputs
            if pack is not None:
                values = pack(*values, *arguments.factors)
            if collective is not None:
                values = collective(*values)
            return values if unpack is None else unpack(*values, *arguments.olds)

        return run

    def _one_program(self, call: Signature, arguments: _Arguments) -> _Plan:
        count = len(arguments.inputs)
        program = self._programs.over_ranks(
            call.name,
            lambda *arrays: call.unpack(call.collective(call.pack(arrays[:count])), arrays[count:]),
            call,
            [*arguments.inputs, *arguments.olds],
        )
        return lambda arguments: program(*arguments.inputs, *arguments.olds)


def _spans_ranks(call: Signature, arguments: _Arguments) -> bool:
    """Return whether all arrays can be shards of distributed arrays: none is a scalar or empty."""
    shapes = [array.shape for array in (*arguments.inputs, *arguments.olds)]
    shapes += [target.shape for target in call.targets]
    return all(shapes) and all(map(math.prod, shapes))


def _is_identity(function: Callable[[Any], Any], arrays: Sequence[Any]) -> bool:
    """Return whether a function returns its arguments unchanged."""
    traced = jax.make_jaxpr(function)(list(arrays)).jaxpr
    return not traced.eqns and traced.outvars == traced.invars


def _as_array(factor: Any) -> np.ndarray:
    numbers = factor.double().numpy() if isinstance(factor, torch.Tensor) else np.asarray(factor)
    return numbers.reshape(()) if numbers.size == 1 else numbers
