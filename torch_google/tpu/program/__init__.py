# SPDX-License-Identifier: Apache-2.0
"""Programs: an operator or a graph of torch's as one function of jax arrays.

For eager misses, torch.compile and export alike.
"""

from torch_google.tpu.program.functional import Functional, functional_of, mutation
from torch_google.tpu.program.interpreter import Program, lower_graph
from torch_google.tpu.program.operators import lower_op
from torch_google.tpu.program.products import reordered
from torch_google.tpu.program.trace import BakedNumber, HostRead, Number, taken, trace
from torch_google.tpu.program.transfer import constant, host_array, tensor_of

__all__ = [
    "BakedNumber",
    "Functional",
    "HostRead",
    "Number",
    "Program",
    "constant",
    "functional_of",
    "host_array",
    "lower_graph",
    "lower_op",
    "mutation",
    "reordered",
    "taken",
    "tensor_of",
    "trace",
]
