# SPDX-License-Identifier: Apache-2.0
"""What each operator of torch is in JAX: one module for each family of operators."""

from torch_google.tpu.lowerings import (
    bessel as bessel,
)
from torch_google.tpu.lowerings import (
    comparison as comparison,
)
from torch_google.tpu.lowerings import (
    creation as creation,
)
from torch_google.tpu.lowerings import (
    extrema as extrema,
)
from torch_google.tpu.lowerings import (
    histograms as histograms,
)
from torch_google.tpu.lowerings import (
    indexing as indexing,
)
from torch_google.tpu.lowerings import (
    orthogonal as orthogonal,
)
from torch_google.tpu.lowerings import (
    padding as padding,
)
from torch_google.tpu.lowerings import (
    pointwise_binary as pointwise_binary,
)
from torch_google.tpu.lowerings import (
    pointwise_unary as pointwise_unary,
)
from torch_google.tpu.lowerings import (
    random as random,
)
from torch_google.tpu.lowerings import (
    reductions as reductions,
)
from torch_google.tpu.lowerings import (
    scans as scans,
)
from torch_google.tpu.lowerings import (
    segments as segments,
)
from torch_google.tpu.lowerings import (
    shapes as shapes,
)
from torch_google.tpu.lowerings import (
    sorting as sorting,
)
from torch_google.tpu.lowerings import (
    special as special,
)
from torch_google.tpu.lowerings.table import Lowering, find, lowering, name_of, names

__all__ = ["Lowering", "find", "lowering", "name_of", "names"]
