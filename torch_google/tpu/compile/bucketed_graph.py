# SPDX-License-Identifier: Apache-2.0
"""Selects a program for each call to a graph whose symbolic sizes are padded to buckets."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from torch_google.tpu.buckets import (
    BucketPolicy,
    PaddingRefusal,
    SizeScope,
)
from torch_google.tpu.buckets.sizes import expr_of
from torch_google.tpu.compile.bucketed_program import BucketedProgram
from torch_google.tpu.compile.device_adapter import DeviceAdapter
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.compile.options import Options

_log = logging.getLogger(__name__)
_PLANS = 1024


@dataclass(frozen=True)
class _BucketPlan:
    """A program and the metadata of its results, for all calls with the same sizes."""

    program: BucketedProgram
    result_plan: Any
    others: list[Any]


class BucketedGraph:
    """A graph with symbolic sizes, and its bucketed programs.

    Results at index `loose` or higher may be contiguous, regardless of their strides in the graph.
    If `wait` is set, a size is not padded until it has changed between calls. The caller sets
    `wait` if the user has declared all sizes dynamic, because even then most sizes never change.
    """

    def __init__(
        self,
        signature: GraphSignature,
        options: Options,
        policy: BucketPolicy,
        *,
        loose: int,
        wait: bool,
    ) -> None:
        self._signature = signature
        self._options = options
        self._policy = policy
        self._loose = loose
        self._wait = wait
        self._first: dict[Any, int] = {}
        self._changing: set[Any] = set()
        self._refused: str | None = None
        self._programs: OrderedDict[Hashable, BucketedProgram] = OrderedDict()
        self._plans: OrderedDict[Hashable, _BucketPlan | None] = OrderedDict()
        self._sources = signature.sources()
        self._shaped = _in_shapes(signature)

    def __call__(
        self, args: Sequence[Any], adapter: DeviceAdapter, precision: str
    ) -> list[Any] | None:
        """Return the results of a call, or None if the call needs a program for its exact sizes."""
        if self._refused is not None:
            return None
        signature = self._signature
        arrays = signature.arrays(args)
        sizes = [
            args[index] if axis is None else args[index].shape[axis]
            for index, axis in self._sources.values()
        ]
        static = [
            (
                arrays[index].shape,
                arrays[index].dtype,
                args[index].storage_offset(),
                args[index].stride(),
                args[index].is_conj(),
                args[index].is_neg(),
            )
            for index in signature.unsized
        ]
        key = (precision, *sizes, *static)
        if key in self._plans:
            plan = self._plans[key]
            self._plans.move_to_end(key)
        else:
            plan = self._plan(args, arrays, adapter, precision, sizes, tuple(static))
            self._plans[key] = plan
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        if plan is None:
            return None
        return plan.program(args, arrays, adapter, sizes, plan.result_plan, plan.others)

    def _plan(
        self,
        args: Sequence[Any],
        arrays: Sequence[Any],
        adapter: DeviceAdapter,
        precision: str,
        sizes: Sequence[int],
        static: Hashable,
    ) -> _BucketPlan | None:
        values = dict(zip(self._sources, map(int, sizes), strict=True))
        try:
            fixed = self._fixed(values)
            buckets = {
                symbol: values[symbol] if symbol in fixed else self._policy.bucket(values[symbol])
                for symbol in self._shaped
            }
            program = self._program(args, arrays, adapter, precision, buckets, fixed, static)
            if not program.scope.holds(values):
                raise PaddingRefusal("sizes that break an assumption of the trace")
            plan = adapter.plan(program.tensors(values, self._loose))
            return _BucketPlan(program, plan, program.numbers_and_nones(values))
        except PaddingRefusal as refusal:
            self._refuse(str(refusal), adapter)
            return None

    def _fixed(self, values: Mapping[Any, int]) -> frozenset[Any]:
        """Return the symbols that have had the same value in all calls, and need no padding."""
        missing = [symbol for symbol in self._shaped if symbol not in values]
        if missing:
            raise PaddingRefusal("a size that depends on values")
        if not self._wait:
            return frozenset()
        for symbol in self._shaped:
            if self._first.setdefault(symbol, values[symbol]) != values[symbol]:
                self._changing.add(symbol)
        return frozenset(symbol for symbol in self._shaped if symbol not in self._changing)

    def _refuse(self, reason: str, adapter: DeviceAdapter) -> None:
        adapter.refuse(reason)
        if not reason.startswith("a size above") and self._refused is None:
            self._refused = reason
            _log.info(
                "tpu: torch.compile: one program per set of sizes, as padding affects results: %s",
                reason,
            )

    def _program(
        self,
        args: Sequence[Any],
        arrays: Sequence[Any],
        adapter: DeviceAdapter,
        precision: str,
        buckets: Mapping[Any, int],
        fixed: frozenset[Any],
        static: Hashable,
    ) -> BucketedProgram:
        key = (precision, tuple(buckets.values()), fixed, static)
        program = self._programs.get(key)
        if program is not None:
            self._programs.move_to_end(key)
            return program
        options = replace(self._options, precision=precision)
        scope = SizeScope(buckets, fixed)
        symbols = list(self._sources)
        bucketed = BucketedProgram(
            self._signature, args, arrays, scope, symbols, self._loose, options
        )
        while len(self._programs) >= self._options.max_programs:
            self._drop(adapter)
        self._programs[key] = bucketed
        return bucketed

    def _drop(self, adapter: DeviceAdapter) -> None:
        _, gone = self._programs.popitem(last=False)
        for key in [key for key, plan in self._plans.items() if plan and plan.program is gone]:
            del self._plans[key]
        adapter.count("evict")


def _in_shapes(signature: GraphSignature) -> list[Any]:
    """Return the symbols that tensor sizes depend on, in a deterministic order."""
    symbols = {
        symbol
        for node in signature.graph.graph.nodes
        for leaf in torch.utils._pytree.tree_leaves(node.meta.get("val"))
        if isinstance(leaf, torch.Tensor)
        for size in leaf.shape
        for symbol in expr_of(size).free_symbols
    }
    return sorted(symbols, key=str)
