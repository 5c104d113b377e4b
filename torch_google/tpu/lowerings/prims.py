# SPDX-License-Identifier: Apache-2.0
"""Prims of torch's decompositions that no operator of aten is the namesake of."""

from __future__ import annotations

from torch_google.tpu.lowerings.promotion import Array
from torch_google.tpu.lowerings.table import lowering


@lowering("prims::fma")
def fma(self: Array, factor: Array, addend: Array) -> Array:
    # Rounded as XLA fuses it: once where the processor can, twice otherwise.
    return self * factor + addend
