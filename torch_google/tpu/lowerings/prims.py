# SPDX-License-Identifier: Apache-2.0
"""Lowerings of torch's prims that have no operator of the same name in aten."""

from __future__ import annotations

from torch_google.tpu.lowerings.promotion import Array
from torch_google.tpu.lowerings.table import lowering


@lowering("prims::fma")
def fma(self: Array, factor: Array, addend: Array) -> Array:
    # XLA decides whether to fuse the product and the sum. The result is rounded once if the
    # processor has fma instructions, otherwise twice.
    return self * factor + addend
