# SPDX-License-Identifier: Apache-2.0
"""Prims that torch's decompositions use, if aten has no operator with the same name."""

from __future__ import annotations

from torch_google.tpu.lowerings.promotion import Array
from torch_google.tpu.lowerings.table import lowering


@lowering("prims::fma")
def fma(self: Array, factor: Array, addend: Array) -> Array:
    # XLA decides whether to fuse. It rounds once if the processor has fma instructions, otherwise
    # twice.
    return self * factor + addend
