# SPDX-License-Identifier: Apache-2.0
"""Programs: an operator or a graph of torch's as one function of jax arrays.

For eager misses, torch.compile and export alike. What makes programs is imported when it is asked
for: it loads the table of lowerings, and what torch traces with. A process whose programs are all in
the compile cache does without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_google.tpu.program.functional import Functional, functional_of, mutation
from torch_google.tpu.program.number import BakedNumber, Number, apply, taken

if TYPE_CHECKING:
    from torch_google.tpu.program.interpreter import Program, lower_graph
    from torch_google.tpu.program.operators import lower_op
    from torch_google.tpu.program.products import reordered
    from torch_google.tpu.program.trace import HostRead
    from torch_google.tpu.program.transfer import constant, host_array, tensor_of

__all__ = [
    "BakedNumber",
    "Functional",
    "HostRead",
    "Number",
    "Program",
    "apply",
    "constant",
    "functional_of",
    "host_array",
    "lower_graph",
    "lower_op",
    "mutation",
    "reordered",
    "taken",
    "tensor_of",
]

_LATER = {
    "HostRead": "trace",
    "Program": "interpreter",
    "constant": "transfer",
    "host_array": "transfer",
    "lower_graph": "interpreter",
    "lower_op": "operators",
    "reordered": "products",
    "tensor_of": "transfer",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found
