# SPDX-License-Identifier: Apache-2.0
"""Computes operators on arrays that are padded to buckets, so that a new size needs no program.

Each module contains the rules for one family of operators. A rule computes the results of an
operator from padded arguments.
"""

from torch_google.tpu.buckets import (
    attention as attention,
)
from torch_google.tpu.buckets import (
    convolution as convolution,
)
from torch_google.tpu.buckets import (
    creation as creation,
)
from torch_google.tpu.buckets import (
    indexing as indexing,
)
from torch_google.tpu.buckets import (
    joins as joins,
)
from torch_google.tpu.buckets import (
    losses as losses,
)
from torch_google.tpu.buckets import (
    normalization as normalization,
)
from torch_google.tpu.buckets import (
    pointwise as pointwise,
)
from torch_google.tpu.buckets import (
    positions as positions,
)
from torch_google.tpu.buckets import (
    products as products,
)
from torch_google.tpu.buckets import (
    reductions as reductions,
)
from torch_google.tpu.buckets import (
    views as views,
)
from torch_google.tpu.buckets.padded_array import PaddedArray, compacted, unpacked
from torch_google.tpu.buckets.rule_choice import apply_rule
from torch_google.tpu.buckets.sizes import BucketPolicy, PaddingRefusal, SizeScope, number

__all__ = [
    "BucketPolicy",
    "PaddedArray",
    "PaddingRefusal",
    "SizeScope",
    "apply_rule",
    "compacted",
    "number",
    "unpacked",
]
