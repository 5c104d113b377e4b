# SPDX-License-Identifier: Apache-2.0
"""Decides which calls to a graph with changing sizes run on torch's CPU kernels.

CPU kernels are used on the `cpu` platform, unless the user has disabled them
(`torch.tpu.set_cpu_kernels`). They compile nothing, so a new set of sizes costs no more than a
repeated one. Apart from that setting, the decision depends only on the number of calls and their
sizes.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Hashable, Sequence
from typing import Any

from torch_google.tpu.compile.cpu_graph import CpuGraphPlan, NoCpuGraph, expected, plan
from torch_google.tpu.compile.device_adapter import DeviceAdapter
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.compile.symbols import Symbols

_log = logging.getLogger(__name__)

# These numbers are those of fused mode; see kRounds in ../csrc/cpu_kernels.cpp. A set of sizes gets
# a program on its _CALLS-th call. After _MANY_SETS sets, it takes _MANY_CALLS calls.
_CALLS, _MANY_CALLS = 3, 8
_MANY_SETS = 16
# The number of sets of sizes for which a graph gets programs, in addition to the first set.
_MAX_PROGRAMS = 8
# The counts are reset after this many sets of sizes.
_MAX_SETS = 8192


class Route(enum.Enum):
    """How to run a call."""

    BUCKETS = enum.auto()  # as without CPU kernels
    KERNELS = enum.auto()
    EXACT = enum.auto()  # with a program for exactly these sizes


class CpuCalls:
    """The calls to a graph with symbolic sizes that run on CPU kernels.

    If `wait` is set, calls with the first call's sizes use its program, and CPU kernels are used
    from the first call with other sizes on. Results at index `loose` or higher may have any
    strides.
    """

    def __init__(self, signature: GraphSignature, *, loose: int, wait: bool) -> None:
        self._signature = signature
        self._loose = loose
        self._first: Hashable | None = None
        self._changed = not wait
        self._counts: dict[Hashable, int] = {}
        self._exact: set[Hashable] = set()
        self._refused = False
        self._is_checked = False
        self._graph: Any = None
        self._plan: CpuGraphPlan | None = None
        # Programs take these numbers as inputs, so other values need no other program.
        numbers = signature.numbers
        places = signature.sources().values()
        self._places = [(i, axis) for i, axis in places if axis is not None or i not in numbers]

    def route(self, args: Sequence[Any], adapter: DeviceAdapter) -> Route:
        """Decide how to run a call, and count it."""
        if self._refused or not adapter.uses_cpu_kernels():
            return Route.BUCKETS
        key = tuple([args[i] if axis is None else args[i].shape[axis] for i, axis in self._places])
        if not self._changed:
            if self._first is None:
                self._first = key
            if key == self._first:
                return Route.BUCKETS
            self._changed = True
        if key == self._first:
            return Route.BUCKETS
        if key in self._exact:
            return Route.EXACT
        if len(self._counts) >= _MAX_SETS:
            self._counts.clear()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        enough = _MANY_CALLS if len(self._counts) > _MANY_SETS else _CALLS
        if count >= enough and len(self._exact) < _MAX_PROGRAMS:
            self._exact.add(key)
            return Route.EXACT
        return Route.KERNELS

    def run(self, args: Sequence[Any], adapter: DeviceAdapter) -> list[Any] | None:
        """Return the results of a call, or None if nothing was written and it needs a program."""
        if self._graph is None and not self._open(adapter):
            return None
        translation = self._plan
        assert translation is not None
        check = None if self._is_checked else self._expected(args)
        new = self._graph.run(args if isinstance(args, list) else list(args), check)
        if new is None:
            return None
        if isinstance(new, str):
            self._refuse(new, adapter)
            return None
        self._is_checked = True
        adapter.count("cpu_kernels")
        return [
            args[index] if index is not None else new[position] if position is not None else value
            for index, position, value in self._results
        ]

    def _open(self, adapter: DeviceAdapter) -> bool:
        signature = self._signature
        try:
            translation = plan(signature, adapter)
            graph = adapter.cpu_graph(
                len(signature.inputs),
                translation.steps,
                translation.outputs,
                translation.written,
                signature.device,
            )
        except (NoCpuGraph, RuntimeError, TypeError, IndexError) as refusal:
            self._refuse(str(refusal), adapter)
            return False
        positions = {
            node: i for i, node in enumerate(translation.nodes[len(translation.written) :])
        }
        self._results = [
            (result, None, None)
            if isinstance(result, int)
            else (None, None, result[0])
            if isinstance(result, list)
            else (None, positions[result], None)
            for result in translation.results
        ]
        self._plan, self._graph = translation, graph
        return True

    def _expected(self, args: Sequence[Any]) -> list[Any]:
        assert self._plan is not None
        signature = self._signature
        strict = set(signature.outputs[: self._loose])
        loose = [node for node in self._plan.nodes if node not in strict]
        return expected(self._plan, Symbols(signature.metas, args), loose)

    def _refuse(self, reason: str, adapter: DeviceAdapter) -> None:
        self._refused = True
        adapter.count("cpu_kernels_refused")
        _log.info("tpu: torch.compile: a graph runs without CPU kernels: %s", reason)
