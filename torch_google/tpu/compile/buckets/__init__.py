# SPDX-License-Identifier: Apache-2.0
"""Evaluates graphs with symbolic sizes on arrays that are padded to buckets.

Each module contains the rules for one family of operators. A rule computes the results of an
operator from padded arguments.
"""

from torch_google.tpu.compile.buckets import (
    attention as attention,
)
from torch_google.tpu.compile.buckets import (
    convolution as convolution,
)
from torch_google.tpu.compile.buckets import (
    creation as creation,
)
from torch_google.tpu.compile.buckets import (
    indexing as indexing,
)
from torch_google.tpu.compile.buckets import (
    joins as joins,
)
from torch_google.tpu.compile.buckets import (
    losses as losses,
)
from torch_google.tpu.compile.buckets import (
    normalization as normalization,
)
from torch_google.tpu.compile.buckets import (
    pointwise as pointwise,
)
from torch_google.tpu.compile.buckets import (
    positions as positions,
)
from torch_google.tpu.compile.buckets import (
    products as products,
)
from torch_google.tpu.compile.buckets import (
    reductions as reductions,
)
from torch_google.tpu.compile.buckets import (
    views as views,
)
from torch_google.tpu.compile.buckets.padded_array import PaddedArray, compacted, unpacked
from torch_google.tpu.compile.buckets.padded_evaluation import evaluate
from torch_google.tpu.compile.buckets.sizes import BucketPolicy, PaddingRefusal, SizeScope, number

__all__ = [
    "BucketPolicy",
    "PaddedArray",
    "PaddingRefusal",
    "SizeScope",
    "compacted",
    "evaluate",
    "number",
    "unpacked",
]
