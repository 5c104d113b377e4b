# SPDX-License-Identifier: Apache-2.0
"""Prims in torch's decompositions that have no namesake in aten."""

from __future__ import annotations

from torch_google.tpu.lowerings.promotion import Array
from torch_google.tpu.lowerings.table import lowering


@lowering("prims::fma")
def fma(self: Array, factor: Array, addend: Array) -> Array:
    # XLA decides whether to fuse: one rounding if the processor has fma, two otherwise.
    return self * factor + addend
