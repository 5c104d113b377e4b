# SPDX-License-Identifier: Apache-2.0
"""Conversion of torch operators and graphs to programs: functions of JAX arrays.

Eager cache misses, torch.compile and export all use this package. Its modules are imported on first
use, because they load the table of lowerings and torch's tracer. A process that finds all its
programs in the compile cache never imports them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_google.tpu.program.functional_form import FunctionalForm, functional_of, mutation
from torch_google.tpu.program.number import BakedNumber, Number, accepted_arguments, apply

if TYPE_CHECKING:
    from torch_google.tpu.program.fenced_writes import fenced
    from torch_google.tpu.program.graph_tracing import HostRead
    from torch_google.tpu.program.host_arrays import constant, host_array, tensor_of
    from torch_google.tpu.program.interpreter import LoweredProgram, lower_graph
    from torch_google.tpu.program.miscompiled_fusion import compile_safely
    from torch_google.tpu.program.operator_lowering import lower_op
    from torch_google.tpu.program.product_reordering import reordered

__all__ = [
    "BakedNumber",
    "FunctionalForm",
    "HostRead",
    "LoweredProgram",
    "Number",
    "accepted_arguments",
    "apply",
    "compile_safely",
    "constant",
    "fenced",
    "functional_of",
    "host_array",
    "lower_graph",
    "lower_op",
    "mutation",
    "reordered",
    "tensor_of",
]

_LAZY = {
    "HostRead": "graph_tracing",
    "LoweredProgram": "interpreter",
    "compile_safely": "miscompiled_fusion",
    "constant": "host_arrays",
    "fenced": "fenced_writes",
    "host_array": "host_arrays",
    "lower_graph": "interpreter",
    "lower_op": "operator_lowering",
    "reordered": "product_reordering",
    "tensor_of": "host_arrays",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
