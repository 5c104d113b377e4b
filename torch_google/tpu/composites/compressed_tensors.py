# SPDX-License-Identifier: Apache-2.0
"""Sparse CSR and CSC tensors: conversions, sums and products.

A compressed tensor consists of three dense tensors on the device. In CSR, `crow_indices` holds the
position of each row's first element, and `col_indices` the column of each element. In CSC, rows and
columns are exchanged. For most conversions, torch's CPU kernels only call operators on the dense
tensors, so the device reuses them. The functions of this module replace those that access memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

_STRUCTURE = """
_nnz _to_dense ccol_indices clone col_indices copy_ crow_indices dense_dim empty.memory_format
empty_like fill_.Scalar resize_as_sparse_ row_indices sparse_dim values zero_
"""
_VALUES = """
abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p neg rad2deg relu round
sgn sign sin sinh sqrt tan tanh trunc
"""
_MORE_VALUES = "angle isinf isnan isneginf isposinf normal_ signbit threshold_backward"
_FROM_DENSE = ("_to_sparse_bsc", "_to_sparse_bsr", "_to_sparse_csc", "_to_sparse_csr")
_PRODUCT_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_CSR_OR_CSC = (torch.sparse_csr, torch.sparse_csc)
_BLOCKS = (torch.sparse_bsr, torch.sparse_bsc)


def coo_to_csr(indices: torch.Tensor, size: int, *, out_int32: bool = False) -> torch.Tensor:
    """Return the position of each row's first element, given the sorted rows of all elements."""
    rows = torch.arange(size + 1, device=indices.device, dtype=indices.dtype)
    first = torch.searchsorted(indices.contiguous(), rows)
    return first.to(torch.int32 if out_int32 else torch.int64)


def csr_to_coo(
    crow: torch.Tensor, columns: torch.Tensor, *, out_int32: bool = False, transpose: bool = False
) -> torch.Tensor:
    """Return the rows and the columns of all elements, as the two rows of a matrix."""
    if crow.dim() != 1:
        raise NotImplementedError(
            "tpu: this operator takes no batches of compressed tensors. Call it for each matrix"
        )
    rows = _expanded(crow, columns.shape[0])
    parts = [columns, rows] if transpose else [rows, columns]
    return torch.stack(parts).to(torch.int32 if out_int32 else torch.int64)


def validate(is_crow: bool, compressed: torch.Tensor, plain: torch.Tensor, *sizes: int) -> None:
    """Raise torch's error for invalid indices. Reads them on the host."""
    op = torch.ops.aten._validate_compressed_sparse_indices.default
    op(is_crow, compressed.cpu(), plain.cpu(), *sizes)


def to_layout(tensor: torch.Tensor, layout: torch.layout, *blocks: Any) -> torch.Tensor:
    """Convert a compressed tensor to another sparse layout."""
    if tensor.layout == layout:
        return tensor.clone()
    if tensor.layout in _CSR_OR_CSC and tensor.values().dim() == 1 and layout not in _BLOCKS:
        sparse = _to_coo(tensor)
        return sparse if layout == torch.sparse_coo else _to_sparse(sparse, layout, *blocks)
    if layout == torch.sparse_coo:
        result: torch.Tensor = _CPU_TO_SPARSE(tensor)
        return result
    return _to_sparse(tensor.to_dense(), layout, *blocks)


def to_sparse(
    tensor: torch.Tensor, *, layout: torch.layout | None = None, blocksize: Any = None, **_: Any
) -> torch.Tensor:
    return to_layout(tensor, layout or torch.sparse_coo, *([blocksize] if blocksize else []))


def add(one: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    """Return one + alpha * other: dense if one of them is dense, otherwise like `one`."""
    if torch.strided in (one.layout, other.layout):
        return one.to_dense().add(other.to_dense(), alpha=alpha)
    return _to_coo(one).add(_to_coo(other), alpha=alpha).coalesce().to_sparse(layout=one.layout)


def add_(one: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    if one.layout == torch.strided:
        return one.add_(other.to_dense(), alpha=alpha)
    return _put(one, add(one, other, alpha=alpha))


def mul(one: Any, other: Any) -> torch.Tensor:
    """Return the product with a scalar, or with a dense or sparse tensor of the same shape."""
    if not (isinstance(one, torch.Tensor) and one.layout in (*_CSR_OR_CSC, *_BLOCKS)):
        one, other = other, one
    if not isinstance(other, torch.Tensor) or (other.dim() == 0 and other.layout == torch.strided):
        return _with_values(one, one.values() * other)
    if one.layout in _BLOCKS:
        raise NotImplementedError(
            f"tpu: mul of a {one.layout} tensor with another tensor. Convert it with to_sparse_csr()"
        )
    if one.shape != other.shape:
        raise RuntimeError(
            f"mul: expected tensors of one shape, but {list(one.shape)} != {list(other.shape)}"
        )
    if other.layout == torch.strided:
        return _with_values(one, one.values() * _gathered(other, *_indices(one)))
    return (_to_coo(one).coalesce() * _to_coo(other).coalesce()).to_sparse(layout=one.layout)


def mul_(one: torch.Tensor, other: Any) -> torch.Tensor:
    if one.layout == torch.strided:
        return one.mul_(other.to_dense())
    return _put(one, mul(one, other))


def mm(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of two matrices: sparse if both matrices are, otherwise dense."""
    if other.layout == torch.strided:
        return _product(one, other)
    if one.layout == torch.strided:
        return _product(other.t(), one.t()).t()
    both_csc = one.layout == other.layout == torch.sparse_csc
    layout = torch.sparse_csc if both_csc else torch.sparse_csr
    return _product(one, other.to_dense()).to_sparse(layout=layout)


def addmm(
    bias: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    product = mm(one, other) * alpha
    if bias.layout != torch.strided:
        return add(bias * beta, product)
    product = product.to_dense()
    return product + beta * bias.expand_as(product) if beta else product


def mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return _product(matrix, vector.unsqueeze(1)).squeeze(1)


def addmv(
    bias: torch.Tensor,
    matrix: torch.Tensor,
    vector: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    product = mv(matrix, vector) * alpha
    return product + beta * bias.expand_as(product) if beta else product


def sampled_addmm(
    bias: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """Return beta * bias + alpha * one @ other, at the indices of the sparse `bias`."""
    if bias.dtype not in _PRODUCT_DTYPES:
        raise RuntimeError(
            "sparse_sampled_addmm: Expected self to be a floating-point or complex tensor, but got "
            f"{bias.dtype}. Convert it to one of {', '.join(map(str, _PRODUCT_DTYPES))}"
        )
    rows, columns = _indices(bias)
    products = one.index_select(0, rows) * other.t().index_select(0, columns)
    values = alpha * products.sum(1)
    return _with_values(bias, values + beta * bias.values() if beta else values)


def mask(tensor: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """Return a compressed tensor with the indices of `where` and the values of `tensor` there."""
    return _with_values(where, _gathered(tensor.to_dense(), *_indices(where)))


def select(tensor: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    return _to_coo(tensor).select(dim, index)


def total(tensor: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return tensor.values().sum(dtype=dtype)


def sum_of(
    tensor: torch.Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return tensor.to_dense().sum(dim, keepdim, dtype=dtype).to_sparse(layout=tensor.layout)


def mm_reduce(
    matrix: torch.Tensor, dense: torch.Tensor, reduce: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the product with `reduce` instead of a sum, and the elements that amax or amin chose.

    An element is the index of a value. For a row without values, it is their number.
    """
    rows, columns = _checked_for_reduction(matrix, dense, reduce)
    # The CPU accumulates and compares float16 and bfloat16 as float32.
    dtype = torch.promote_types(dense.dtype, torch.float32)
    parts = matrix.values().to(dtype)[:, None] * dense.index_select(0, columns)
    result = parts.new_zeros(matrix.shape[0], dense.shape[1])
    none = torch.empty(0, dtype=torch.int64, device=matrix.device)
    if reduce == "sum":
        return result.index_add(0, rows, parts).to(dense.dtype), none
    if reduce == "mean":
        result = result.index_add(0, rows, parts) / _row_lengths(matrix)
        return result.to(dense.dtype), none
    row_of_part = rows[:, None].expand(parts.shape)
    result = result.scatter_reduce(0, row_of_part, parts, reduce, include_self=False)
    count = matrix._nnz()
    elements = torch.arange(count, device=matrix.device)[:, None]
    matches = torch.where(parts == result.index_select(0, rows), elements, count)
    first = torch.full_like(result, count, dtype=torch.int64)
    return result.to(dense.dtype), first.scatter_reduce(0, row_of_part, matches, "amin")


def mm_reduce_backward(
    matrix: torch.Tensor,
    grad: torch.Tensor,
    dense: torch.Tensor,
    reduce: str,
    chosen: torch.Tensor,
    needed: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    rows, columns = _indices(matrix)
    dtype = torch.promote_types(dense.dtype, torch.float32)
    grad = grad.to(dtype)
    if reduce == "mean":
        grad = grad / _row_lengths(matrix)
    of_part = grad.index_select(0, rows)
    if reduce in ("amax", "amin"):
        elements = torch.arange(matrix._nnz(), device=matrix.device)[:, None]
        of_part = torch.where(chosen.index_select(0, rows) == elements, of_part, 0)
    of_matrix = of_dense = None
    if needed[0]:
        values = (of_part * dense.index_select(0, columns)).sum(1)
        of_matrix = _with_values(matrix, values.to(matrix.dtype))
    if needed[1]:
        parts = matrix.values()[:, None] * of_part
        of_dense = torch.zeros_like(dense, dtype=dtype).index_add(0, columns, parts)
        of_dense = of_dense.to(dense.dtype)
    return of_matrix, of_dense


def _borrowed(op: OpOverload, key: DispatchKey, *args: Any, **kwargs: Any) -> Any:
    return op._op_dk(key, *args, **kwargs)


def _operator(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    op: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return op


def _borrow(key: DispatchKey, names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    return {name: partial(_borrowed, _operator(name), key) for name in names}


def _conversion(layout: torch.layout) -> Callable[..., torch.Tensor]:
    def convert(tensor: torch.Tensor, *blocks: Any, **_: Any) -> torch.Tensor:
        return to_layout(tensor, layout, *blocks)

    return convert


_CPU_TO_SPARSE = partial(_borrowed, torch.ops.aten._to_sparse.default, DispatchKey.SparseCsrCPU)

KERNELS: dict[str, Callable[..., Any]] = {
    **_borrow(
        DispatchKey.SparseCsrCPU,
        [
            *_STRUCTURE.split(),
            *_MORE_VALUES.split(),
            *(name for value in _VALUES.split() for name in (value, f"{value}_")),
        ],
    ),
    "_sparse_csr_sum.dim_dtype": sum_of,
    "_sparse_mm_reduce_impl": mm_reduce,
    "_sparse_mm_reduce_impl_backward": mm_reduce_backward,
    "_to_sparse": to_sparse,
    "_to_sparse.sparse_dim": lambda tensor, _: to_layout(tensor, torch.sparse_coo),
    "_to_sparse_bsc": _conversion(torch.sparse_bsc),
    "_to_sparse_bsr": _conversion(torch.sparse_bsr),
    "_to_sparse_csc": _conversion(torch.sparse_csc),
    "_to_sparse_csr": _conversion(torch.sparse_csr),
    "add.Tensor": add,
    "add_.Tensor": add_,
    "addmm": addmm,
    "addmv": addmv,
    "mm": mm,
    "mul.Scalar": mul,
    "mul.Tensor": mul,
    "mul_.Scalar": mul_,
    "mul_.Tensor": mul_,
    "mv": mv,
    "select.int": select,
    "sparse_mask": mask,
    "sparse_sampled_addmm": sampled_addmm,
    "sum": total,
}
"""The kernels for calls with a compressed argument."""

COO_KERNELS = _borrow(DispatchKey.SparseCPU, _FROM_DENSE)
"""The kernels that compress COO tensors."""

DENSE_KERNELS: dict[str, Callable[..., Any]] = {
    **_borrow(DispatchKey.CPU, _FROM_DENSE),
    "_convert_indices_from_coo_to_csr": coo_to_csr,
    "_convert_indices_from_csr_to_coo": csr_to_coo,
    "_validate_compressed_sparse_indices": validate,
}
"""The kernels that compress dense tensors, and those for the indices of compressed tensors."""


def _expanded(compressed: torch.Tensor, count: int) -> torch.Tensor:
    positions = torch.arange(count, device=compressed.device, dtype=compressed.dtype)
    return torch.searchsorted(compressed.contiguous(), positions, right=True) - 1


def _indices(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the row and the column of each element of a CSR, CSC or COO matrix."""
    if tensor.layout == torch.sparse_csr:
        rows, columns = csr_to_coo(tensor.crow_indices(), tensor.col_indices()).unbind(0)
    elif tensor.layout == torch.sparse_csc:
        columns, rows = csr_to_coo(tensor.ccol_indices(), tensor.row_indices()).unbind(0)
    elif tensor.layout == torch.sparse_coo:
        rows, columns = tensor._indices().unbind(0)
    else:
        raise NotImplementedError(
            f"tpu: this operator does not take a tensor of {tensor.layout}. Convert it to CSR"
        )
    return rows, columns


def _to_coo(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout == torch.sparse_coo:
        return tensor
    return torch.sparse_coo_tensor(
        torch.stack(_indices(tensor)),
        tensor.values(),
        tensor.shape,
        check_invariants=False,
        # A CSC tensor's elements are sorted by column.
        is_coalesced=tensor.layout == torch.sparse_csr,
    )


def _to_sparse(tensor: torch.Tensor, layout: torch.layout, *blocks: Any) -> torch.Tensor:
    return tensor.to_sparse(layout=layout, blocksize=blocks[0] if blocks else None)


def _gathered(dense: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    return dense.reshape(-1, *dense.shape[2:]).index_select(0, rows * dense.shape[1] + columns)


def _product(matrix: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    if matrix.dim() != 2 or dense.dim() != 2 or matrix.shape[1] != dense.shape[0]:
        shapes = " and ".join("x".join(map(str, each.shape)) for each in (matrix, dense))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes})")
    if matrix.dtype != dense.dtype:
        raise RuntimeError(
            f"expected matrices of the same dtype, found {matrix.dtype} and {dense.dtype}"
        )
    rows, columns = _indices(matrix)
    values = matrix._values() if matrix.layout == torch.sparse_coo else matrix.values()
    parts = values[:, None] * dense.index_select(0, columns)
    return parts.new_zeros(matrix.shape[0], dense.shape[1]).index_add(0, rows, parts)


def _checked_for_reduction(
    matrix: torch.Tensor, dense: torch.Tensor, reduce: str
) -> tuple[torch.Tensor, torch.Tensor]:
    if matrix.layout != torch.sparse_csr:
        raise RuntimeError(
            f"sparse_mm_reduce: expect self to be SparseCsr, got {matrix.layout}. Convert it with "
            "to_sparse_csr()"
        )
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(
            f"sparse_mm_reduce: reduce type of {reduce} has not been enabled. Use sum, mean, amax "
            "or amin"
        )
    if dense.dim() != 2 or dense.shape[0] != matrix.shape[1]:
        raise RuntimeError(
            f"sparse_mm_reduce: {list(matrix.shape)} and {list(dense.shape)} cannot be multiplied. "
            f"Give a second matrix with {matrix.shape[1]} rows"
        )
    if dense.dtype != matrix.dtype:
        raise RuntimeError(
            f"sparse_mm_reduce: expected matrices of the same dtype, found {matrix.dtype} and "
            f"{dense.dtype}"
        )
    if not dense.is_floating_point():
        raise NotImplementedError(
            f"sparse_mm_reduce: not implemented for {dense.dtype}. Use a floating-point dtype"
        )
    return _indices(matrix)


def _row_lengths(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.crow_indices().diff().clamp(min=1)[:, None]


def _with_values(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return a tensor with other values, and copies of the indices, which copy_() overwrites."""
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        indices = tensor.crow_indices(), tensor.col_indices()
    else:
        indices = tensor.ccol_indices(), tensor.row_indices()
    return torch.ops.aten._sparse_compressed_tensor_unsafe(
        *(each.clone() for each in indices),
        values,
        tensor.shape,
        dtype=values.dtype,
        layout=tensor.layout,
        device=values.device,
    )


def _put(tensor: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Write a result to a compressed tensor. Raises torch's error if its dtype does not fit."""
    if not torch.can_cast(result.dtype, tensor.dtype):
        kinds = [str(each.dtype).removeprefix("torch.") for each in (result, tensor)]
        raise RuntimeError(f"result type {kinds[0]} can't be cast to the output type {kinds[1]}")
    result = result.to(tensor.dtype)
    if tensor._nnz() != result._nnz():
        torch.ops.aten.resize_as_sparse_(tensor, result)
    return tensor.copy_(result)
