# SPDX-License-Identifier: Apache-2.0
"""A graph from AOTAutograd, together with its compiled programs.

If the graph has symbolic sizes, it has a program for each bucket or set of sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch._guards import TracingContext
from torch._inductor.output_code import OutputCode
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

from torch_google.tpu.buckets import BucketPolicy
from torch_google.tpu.compile.bucketed_graph import BucketedGraph
from torch_google.tpu.compile.cpu_calls import CpuCalls, Route
from torch_google.tpu.compile.device_adapter import DeviceAdapter
from torch_google.tpu.compile.effects import remove_effects
from torch_google.tpu.compile.graph_refusals import check_graph
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.compile.options import Options
from torch_google.tpu.compile.specialization import Specialization
from torch_google.tpu.compile.split_graph import SplitGraph
from torch_google.tpu.runtime import graph_origins, interruptions

# The options of the current torch.compile call. AOTAutograd's cache does not store them with a
# graph.
CHOSEN: ContextVar[Options] = ContextVar("CHOSEN")


class CompiledGraph(OutputCode):
    """An AOTAutograd graph, which is compiled when it is called.

    A call empties the list of arguments, to free memory early. The graph relies on Dynamo's guards.
    Calls to a graph without symbols therefore differ only in properties that the guards do not
    check: how the tensors are laid out in their storages, and the dtypes of the storages.
    AOTAutograd's cache stores the graph without its programs.
    """

    def __init__(
        self,
        graph: GraphModule,
        inputs: Sequence[Any],
        *,
        inference: bool = False,
        forward: bool = False,
        backward: bool = False,
    ) -> None:
        # This attribute makes AOTAutograd pass the arguments in a single list, and keep no
        # reference to that list.
        self._boxed_call = True
        self._inference = inference
        # From this index on, results may have any layout, because only the backward graph reads
        # them. The index is 0 for a backward graph, because autograd accepts any layout.
        context = TracingContext.try_get() if forward else None
        meta = None if context is None else context.fw_metadata
        self._returns: int | None = None if meta is None else meta.num_forward_returns
        if backward:
            self._returns = 0
        self._stored: bytes | None = None
        self._accepted = False
        self._open(graph)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        signature = self.signature
        if not self._accepted:
            if len(args) < len(signature.inputs):
                # AOTAutograd drops an effect's token from the arguments of a branch, but leaves it
                # in the branch's graph.
                raise NotImplementedError(
                    "tpu: torch.compile: a branch of cond or the body of a loop checks values, as "
                    "torch.linalg.inv does. Use the operator without a check there, such as inv_ex"
                )
            check_graph(signature.graph)
            self._accepted = True
        adapter = signature.adapter()
        if shared := signature.shared_writes(args):
            return self._on_copies(args, shared)
        if signature.collective and not adapter.takes_collectives():
            return self._parts()(args if isinstance(args, list) else list(args))
        route = self._route(args, adapter)
        if route is Route.KERNELS:
            assert self._cpu_calls is not None
            results = self._cpu_calls.run(args, adapter)
            if results is not None:
                if isinstance(args, list):
                    args.clear()
                return results
        precision = self.options.precision or adapter.precision()
        shardings = signature.shardings(args)
        if self._bucketed is not None and route is not Route.EXACT and not shardings:
            padded = self._bucketed(args, adapter, precision)
            if padded is not None:
                if isinstance(args, list):
                    args.clear()
                return signature.check(padded)
        arrays = signature.arrays(args)
        key_parts: list[Any] = [precision, *shardings]
        for index, is_tensor in enumerate(signature.tensors):
            value = args[index]
            if is_tensor:
                # Do not assign the array to a variable: an array with a second reference is copied
                # instead of donated.
                kind = (arrays[index].shape, arrays[index].dtype)
                lies = (value.storage_offset(), value.stride(), value.is_conj(), value.is_neg())
                key_parts.append((*kind, *lies))
            else:
                key_parts.append(type(value) if index in signature.numbers else value)
        if signature.symbolic:
            key_parts += [tuple(value.shape) for value in args if isinstance(value, torch.Tensor)]
        key = tuple(key_parts)
        specialization = self._specializations.get(key)
        if specialization is None:
            specialization = self._make(key, args, arrays, shardings, adapter, precision)
        elif signature.symbolic:
            self._specializations.move_to_end(key)
        results = specialization(args, arrays, adapter)
        if isinstance(args, list):
            args.clear()
        return signature.check(results)

    def _on_copies(self, args: Sequence[Any], shared: Sequence[int]) -> list[Any]:
        """Run a call on copies of these arguments, and then write their new values.

        A program returns the whole array of each storage that it writes to. The arrays of two
        written views of one storage could not both be stored.
        """
        copies = {index: _on_own_storage(args[index]) for index in shared}
        results = self([copies.get(index, value) for index, value in enumerate(args)])
        with torch.no_grad():
            for index, copied in copies.items():
                args[index].copy_(copied)
        originals = {id(copied): args[index] for index, copied in copies.items()}
        results = [originals.get(id(result), result) for result in results]
        if isinstance(args, list):
            args.clear()
        return results

    def prepare_for_serialization(self) -> None:
        """Make this object picklable. AOTAutograd calls this method on a copy of the graph."""
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx._graph_pickler import Options as PicklerOptions

        for module in self.signature.graph.modules():
            if not isinstance(module, GraphModule):
                continue
            graph_origins.prepare_for_serialization(module)
            for node in module.graph.nodes:
                for name in ("source_fn_stack", "fwd_source_fn_stack", "example_value"):
                    node.meta.pop(name, None)
        # FakeTensorMode is active here, and the graph's constants cannot be read in it.
        with _disable_current_modes():
            self._stored = GraphPickler.dumps(self.signature.graph, PicklerOptions(ops_filter=None))
        del self.signature, self.options, self._accepted, self._specializations, self._bucketed
        del self._split, self._cpu_calls

    def post_compile(self, *_: Any) -> None:
        """Restore the graph after unpickling."""
        if self._stored is not None:
            from torch.fx._graph_pickler import GraphPickler

            mode = FakeTensorMode(shape_env=ShapeEnv())
            graph = GraphPickler.loads(self._stored, mode)
            assert isinstance(graph, GraphModule)
            self._stored = None
            self._open(graph)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Do nothing, because there are no Triton kernels."""

    def _open(self, graph: GraphModule) -> None:
        remove_effects(graph)
        if self._returns:
            _save_results(graph, self._returns)
        self.signature = GraphSignature(graph, inference=self._inference)
        self.options = CHOSEN.get()
        self._accepted = False  # the first call checks the graph, and raises the CPU's errors
        self._specializations: OrderedDict[Hashable, Specialization] = OrderedDict()
        self._split: SplitGraph | None = None
        self._bucketed: BucketedGraph | None = None
        self._cpu_calls: CpuCalls | None = None
        if self.signature.symbolic and self.options.buckets is not False:
            sizes = None if self.options.buckets is True else self.options.buckets
            count = len(self.signature.outputs) if self._returns is None else self._returns
            # dynamic=True sets assume_static_by_default to False. Every size is then symbolic, but
            # most sizes never change, so do not pad a size before it changes. With other settings,
            # Dynamo makes a size symbolic only after it has changed.
            wait = not torch._dynamo.config.assume_static_by_default
            self._bucketed = BucketedGraph(
                self.signature, self.options, BucketPolicy(sizes), loose=count, wait=wait
            )
            # The other values of these options ask for programs.
            if self.options.buckets is True and self.options.precision is None:
                self._cpu_calls = CpuCalls(self.signature, loose=count, wait=wait)

    def _route(self, args: Sequence[Any], adapter: DeviceAdapter) -> Route:
        if self._cpu_calls is None:
            return Route.BUCKETS
        return self._cpu_calls.route(args, adapter)

    def _parts(self) -> SplitGraph:
        if self._split is None:
            self._split = SplitGraph(self.signature.graph, self._part)
        return self._split

    def _part(self, graph: GraphModule) -> CompiledGraph:
        """Return a CompiledGraph for a part of this graph, with the same options."""
        chosen = CHOSEN.set(self.options)
        try:
            return CompiledGraph(graph, (), inference=self._inference)
        finally:
            CHOSEN.reset(chosen)

    def _make(
        self,
        key: Hashable,
        args: Sequence[Any],
        arrays: Sequence[Any],
        shardings: Sequence[int],
        adapter: DeviceAdapter,
        precision: str,
    ) -> Specialization:
        chosen = replace(self.options, precision=precision)
        with interruptions.delayed():
            specialization = Specialization(self.signature, args, arrays, shardings, chosen)
        while len(self._specializations) >= self.options.max_programs:
            self._specializations.popitem(last=False)
            adapter.count("evict")
        self._specializations[key] = specialization
        return specialization


def _save_results(graph: GraphModule, count: int) -> None:
    """Let the backward graph save a result itself, instead of a detached alias of it.

    The first `count` outputs are results. Arrays have no aliases, so a detached alias would be
    another tensor, and torch would not notice that the caller writes to the result before the
    backward pass.
    """
    output = next(iter(reversed(graph.graph.nodes)))
    outputs = list(output.args[0])
    for index, node in enumerate(outputs[count:], count):
        while isinstance(node, Node) and node.target is torch.ops.aten.detach.default:
            node = node.args[0]
        if node in outputs[:count]:
            outputs[index] = node
    output.args = (outputs,)


def _on_own_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same offset and strides, because the graph may depend on them."""
    storage = tensor.untyped_storage().clone()
    with torch.no_grad():
        return tensor.new_empty(0).set_(
            storage, tensor.storage_offset(), tensor.shape, tensor.stride()
        )
