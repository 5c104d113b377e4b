# SPDX-License-Identifier: Apache-2.0
"""Makes torch.compile choose the `tpu` backend for graphs with tensors on this device.

torch's default backend is inductor, which has no kernels for this device. This module replaces
torch.compile's wrapper around inductor with one that first looks for the device's tensors in the
graph. Graphs for other devices still go to inductor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, _symbolic_trace

from torch_google.tpu.release import compiler_arguments
from torch_google.tpu.torch_hooks import dynamo_rules
from torch_google.tpu.tracing_lock import hide_from_other_threads


def install() -> None:
    """Replace torch.compile's wrappers without loading Dynamo or JAX. Idempotent."""
    if torch._TorchCompileInductorWrapper is not _Chooser:
        torch._TorchCompileInductorWrapper = _Chooser
        torch._TorchCompileWrapper = _Named


def backend(graph: GraphModule, inputs: Sequence[Any], **chosen: Any) -> Callable[..., Any]:
    """Compile a graph with the `tpu` backend. The first call loads JAX."""
    from torch_google.tpu.compile import backend as compile_graph

    return compile_graph(graph, inputs, **chosen)


class _Chooser(torch._TorchCompileInductorWrapper):
    def __init__(
        self,
        mode: str | None,
        options: Mapping[str, Any] | None,
        dynamic: bool | None,
        name: str | None = None,
    ) -> None:
        self._chosen: dict[str, Any] = {"mode": mode, "options": dict(options or {})}
        self._refusal: Exception | None = None
        _teach()
        dynamo_rules.teach()
        hide_from_other_threads(_symbolic_trace)
        try:
            super().__init__(*compiler_arguments(mode, options, dynamic, name))
        except RuntimeError as refusal:  # inductor rejects the options, but `tpu` may accept them
            self._refusal = refusal
            super().__init__(*compiler_arguments(None, None, dynamic, name))
        if self._refusal is not None and not _are_ours(self._chosen["options"]):
            raise self._refusal

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Chooser) and super().__eq__(other) and self._chosen == other._chosen
        )

    def __call__(self, graph: GraphModule, inputs: Sequence[Any], **patches: Any) -> Any:
        if _is_ours(graph, inputs):
            return backend(graph, inputs, **self._chosen)
        if self._refusal is not None:
            raise self._refusal
        return super().__call__(graph, inputs, **patches)


class _Named(torch._TorchCompileWrapper):
    def __init__(self, backend: Any, *args: Any) -> None:
        if backend == "tpu":
            _register()
            _teach()
        dynamo_rules.teach()
        hide_from_other_threads(_symbolic_trace)
        super().__init__(backend, *args)


def _register() -> None:
    """Register the backend's name with Dynamo, to avoid a search of installed packages."""
    from torch._dynamo.backends import registry

    if "tpu" not in registry._COMPILER_FNS:
        registry.register_backend(backend, name="tpu")


def _teach() -> None:
    from torch_google.tpu.compile.optimizer_counters import keep_counters_on_device

    keep_counters_on_device()


def _is_ours(graph: GraphModule, inputs: Sequence[Any]) -> bool:
    values = [*inputs, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    return any(isinstance(value, torch.Tensor) and value.device.type == "tpu" for value in values)


def _are_ours(options: Mapping[str, Any]) -> bool:
    from torch_google.tpu.compile.options import names

    return set(options) <= names()
