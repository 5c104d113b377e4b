# SPDX-License-Identifier: Apache-2.0
"""Programs: an operator or a graph of torch's as one function of jax arrays.

For eager misses, torch.compile and export alike.
"""

from torch_google.tpu.program.functional import Functional, functional_of, mutation
from torch_google.tpu.program.interpreter import Program, constant, lower_graph
from torch_google.tpu.program.operators import lower_op
from torch_google.tpu.program.trace import BakedNumber, Number, trace

__all__ = [
    "BakedNumber",
    "Functional",
    "Number",
    "Program",
    "constant",
    "functional_of",
    "lower_graph",
    "lower_op",
    "mutation",
    "trace",
]
