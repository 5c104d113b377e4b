# SPDX-License-Identifier: Apache-2.0
"""Sparse COO operators for which the device reuses torch's CPU kernels.

A sparse tensor consists of two dense tensors, the indices and the values, both on the device. torch
uses the same kernels for the CPU and for CUDA, because they do not access memory directly: they
only call operators on the dense tensors. All other sparse operators are in `sparse_tensors`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

_SHAPE = """
_coalesced_ _dimI _dimV _indices _nnz _sparse_broadcast_to _sparse_coo_tensor_with_dims
_sparse_coo_tensor_with_dims_and_tensors _to_dense _to_sparse _to_sparse.sparse_dim _values cat clone
copy_ copy_sparse_to_sparse_ dense_dim empty.memory_format empty_like indices is_coalesced narrow_copy
permute resize_as_sparse_ sparse_dim sparse_resize_
sparse_resize_and_clear_ unsqueeze values view_as_complex view_as_real zero_
"""
_VALUES = """
abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p nan_to_num neg rad2deg relu
round sgn sign sin sinh sqrt tan tanh trunc
"""
_MORE_VALUES = """
any div.Tensor div.Tensor_mode div.out div.out_mode div_.Tensor div_.Tensor_mode floor_divide
floor_divide.out floor_divide_.Tensor isinf isnan isneginf isposinf mv native_norm
native_norm.ScalarOpt_dim_dtype norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype pow.Tensor_Scalar
pow.Tensor_Scalar_out signbit sum sum.dim_IntList threshold_backward
"""


def _kernels() -> dict[str, Callable[..., Any]]:
    names = [*_SHAPE.split(), *_MORE_VALUES.split()]
    for name in _VALUES.split():
        names += [name, f"{name}_", f"{name}.out"]
    return {name: partial(_borrowed, _operator(name)) for name in names}


def _borrowed(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return op._op_dk(DispatchKey.SparseCPU, *args, **kwargs)


def _from_dense(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return op._op_dk(DispatchKey.CPU, *args, **kwargs)


def _operator(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    op: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return op


KERNELS = _kernels()
"""The kernels for calls with a sparse argument."""

DENSE_KERNELS: dict[str, Callable[..., Any]] = {
    name: partial(_from_dense, _operator(name))
    for name in ("_embedding_bag_backward", "_to_sparse", "_to_sparse.sparse_dim")
}
"""The kernels for conversions to sparse, and for gradients that may be sparse."""
