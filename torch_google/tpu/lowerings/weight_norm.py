# SPDX-License-Identifier: Apache-2.0
"""The gradient of weight normalization, in which a weight is g * v / |v|."""

from __future__ import annotations

import jax

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::_weight_norm_interface_backward")
def weight_norm_backward(
    grad: jax.Array, v: jax.Array, g: jax.Array, norms: jax.Array, dim: int
) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of `v` and `g`. `norms` are v's norms over all axes except `dim`."""
    # Cast the results here, because torch has no meta kernel that reports their dtypes.
    dtypes = (v.dtype, g.dtype)
    grad, v, g, norms = opmath(grad), opmath(v), opmath(g), opmath(norms)
    others = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    along = (grad * v).sum(others, keepdims=True)
    norms = norms.reshape(along.shape)
    of_v = g.reshape(along.shape) / norms * (grad - v * along / (norms * norms))
    return of_v.astype(dtypes[0]), (along / norms).reshape(g.shape).astype(dtypes[1])
