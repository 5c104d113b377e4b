# SPDX-License-Identifier: Apache-2.0
"""torch.compile chooses: graphs with tensors of this device go to the backend `tpu`.

torch has inductor for its default, and inductor has no kernels for this device. What torch.compile
wraps around it learns here to look at a graph first; graphs of other devices are inductor's still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from torch_google.tpu.release import compiler_arguments


def install() -> None:
    """Let torch.compile choose. Loads neither Dynamo nor JAX; a second call does nothing."""
    if torch._TorchCompileInductorWrapper is not _Chooser:
        torch._TorchCompileInductorWrapper = _Chooser
        torch._TorchCompileWrapper = _Named


def backend(graph: GraphModule, inputs: Sequence[Any], **chosen: Any) -> Callable[..., Any]:
    """Compile a graph; JAX is loaded now, with the first one."""
    from torch_google.tpu.compile import backend as ours

    return ours(graph, inputs, **chosen)


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
        try:
            super().__init__(*compiler_arguments(mode, options, dynamic, name))
        except RuntimeError as refusal:  # options of the backend `tpu`, maybe
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
        super().__init__(backend, *args)


def _register() -> None:
    """Give Dynamo the name, which it looks up among those of installed packages otherwise."""
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
