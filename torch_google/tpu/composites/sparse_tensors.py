# SPDX-License-Identifier: Apache-2.0
"""Sparse COO tensors: sums and products, computed with operators on indices and values.

An index is represented by one number, its row-major position in the sparse dimensions. This makes
it possible to sort, search and accumulate elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch


def coalesce(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with sorted indices, and with the values at duplicate indices summed."""
    if tensor.is_coalesced():
        return tensor
    shape = tensor.shape[: tensor.sparse_dim()]
    places, of_value = torch.unique(_places(tensor), return_inverse=True)
    values = tensor._values()
    summed = _added(values.new_zeros(places.shape[0], *values.shape[1:]), of_value, values)
    return _sparse_coo_tensor(_indices_of(places, shape), summed, tensor.shape, coalesced=True)


def add(one: torch.Tensor, other: Any, *, alpha: float = 1) -> torch.Tensor:
    """Return one + alpha * other, for a sparse `other`."""
    return _sum(torch.Tensor.add, one, other, alpha)


def add_(one: torch.Tensor, other: Any, *, alpha: float = 1) -> torch.Tensor:
    """Add a sparse `other` to a dense or sparse tensor, in place."""
    return _put(one, _sum(torch.Tensor.add_, one, other, alpha))


def sub(one: torch.Tensor, other: Any, *, alpha: float = 1) -> torch.Tensor:
    return _sum(torch.Tensor.sub, one, other, alpha, sign=-1)


def sub_(one: torch.Tensor, other: Any, *, alpha: float = 1) -> torch.Tensor:
    return _put(one, _sum(torch.Tensor.sub_, one, other, alpha, sign=-1))


def mul(one: Any, other: Any) -> torch.Tensor:
    """Return the product of a sparse tensor and a scalar, a dense tensor or a sparse tensor."""
    dtype = _dtype(torch.mul, one, other)
    if not (isinstance(one, torch.Tensor) and one.is_sparse):
        one, other = other, one
    if not isinstance(other, torch.Tensor):
        return _with_values(one, (one._values() * other).to(dtype))
    if other.dim() == 0:
        factor = other.to_dense() if other.is_sparse else other
        return _with_values(one, one._values().to(dtype) * factor.to(dtype))
    if one.dim() == 0 or (one.dim() < other.dim() and not other.is_sparse):
        shape = torch.broadcast_shapes(one.shape, other.shape)
        one = torch.ops.aten._sparse_broadcast_to(one, shape)
    if other.is_sparse:
        return _intersection(coalesce(one.to(dtype)), coalesce(other.to(dtype)))
    factors = other.expand(one.shape).to(dtype)
    count = one.sparse_dim()
    rows = factors.reshape(math.prod(one.shape[:count]), *one.shape[count:])
    return _with_values(one, one._values() * rows.index_select(0, _places(one)))


def mul_(one: torch.Tensor, other: Any) -> torch.Tensor:
    _dtype(torch.Tensor.mul_, one, other)
    product = mul(one, other)
    of_two_sparse = one.is_sparse and isinstance(other, torch.Tensor) and other.is_sparse
    if one.is_sparse and not of_two_sparse and product.dtype != one.dtype:
        raise RuntimeError(
            f"mul_: a sparse tensor of {one.dtype} times a dense operand is of {product.dtype}, "
            "which the tensor cannot hold"
        )
    return _put(one, product)


def addmm(
    bias: torch.Tensor,
    one: torch.Tensor,
    other: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    """Return beta * bias + alpha * one @ other for a sparse `one` and a dense or sparse `bias`."""
    _must_be_sparse(one, "addmm(dense, sparse, dense)")
    product = _product(one, other.to_dense() if other.is_sparse else other) * alpha
    if bias.is_sparse:
        return mul(bias, beta) + product.to_sparse()
    return product + beta * bias.expand_as(product) if beta else product


def addmm_(bias: torch.Tensor, *matrices: torch.Tensor, **factors: float) -> torch.Tensor:
    result = addmm(bias, *matrices, **factors)
    return _put(bias, result)


def mm(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of two matrices: sparse if both matrices are, dense otherwise."""
    if one.is_sparse and other.is_sparse:
        return product_of_sparse(one, other)
    if one.is_sparse:
        return _product(one, other)
    return _product(other.t(), one.t()).t()


def bmm(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the dense products of a batch of sparse matrices and a batch of dense matrices."""
    _must_be_sparse(one, "bmm(sparse, dense)")
    batch, rows, columns = one.shape
    if other.dim() != 3 or other.shape[:2] != (batch, columns):
        raise RuntimeError(
            f"bmm: {list(one.shape)} and {list(other.shape)} cannot be multiplied. Give a second "
            f"batch of [{batch}, {columns}, any]"
        )
    matrix, row, column = one._indices().unbind(0)
    flat = _sparse_coo_tensor(
        torch.stack([matrix * rows + row, matrix * columns + column]),
        one._values(),
        (batch * rows, batch * columns),
    )
    return _product(flat, other.reshape(batch * columns, -1)).reshape(batch, rows, -1)


def product_of_sparse(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of two sparse matrices, computed as a dense matrix and then converted."""
    return _product(one, other.to_dense()).to_sparse()


def index_select(tensor: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    """Return the slices of a sparse tensor at the given indices of one dimension."""
    if index.dim() != 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    dim %= tensor.dim()
    index = torch.where(index < 0, index + tensor.shape[dim], index)
    shape = [*tensor.shape[:dim], index.shape[0], *tensor.shape[dim + 1 :]]
    indices, values = tensor._indices(), tensor._values()
    if dim >= tensor.sparse_dim():
        chosen = values.index_select(dim - tensor.sparse_dim() + 1, index)
        return _sparse_coo_tensor(indices, chosen, shape, coalesced=tensor.is_coalesced())
    where, which = (index[:, None] == indices[dim]).nonzero().unbind(1)
    moved = indices.index_select(1, which)
    moved[dim] = where
    return _sparse_coo_tensor(moved, values.index_select(0, which), shape)


def mask(tensor: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """Return the values of a dense or sparse tensor at the indices of the sparse `where`."""
    _must_be_sparse(where, "sparse_mask(tensor, sparse)")
    if tensor.is_sparse:
        tensor = coalesce(tensor)
        positions, matches = _matches(_places(where), _places(tensor))
        values = tensor._values().new_zeros(where._nnz(), *tensor._values().shape[1:])
        values = values.index_copy(0, positions, tensor._values().index_select(0, matches))
    else:
        rows = tensor.reshape(-1, *tensor.shape[where.sparse_dim() :])
        values = rows.index_select(0, _places(where))
    return _sparse_coo_tensor(where._indices(), values, where.shape, coalesced=where.is_coalesced())


def mask_projection(
    tensor: torch.Tensor, where: torch.Tensor, accumulate_matches: bool = False
) -> torch.Tensor:
    """Return the elements of a sparse `tensor` at the indices of a sparse `where`.

    The gradient of `mask` uses this function. If `accumulate_matches` is set, an index that occurs
    twice in `where` counts twice.
    """
    tensor = coalesce(tensor)
    where = where if accumulate_matches else coalesce(where)
    _, positions = _matches(_places(where), _places(tensor))
    values = tensor._values().index_select(0, positions)
    return coalesce(
        _sparse_coo_tensor(tensor._indices().index_select(1, positions), values, tensor.shape)
    )


def sum_backward(grad: torch.Tensor, tensor: torch.Tensor, dim: Sequence[int]) -> torch.Tensor:
    """Return the gradient of a sum over some dimensions, at the indices of the sparse tensor."""
    # If an index had two values, each value would get the whole gradient for that index.
    tensor = coalesce(tensor)
    dense = grad.to_dense() if grad.is_sparse else grad
    for d in sorted(d % tensor.dim() for d in dim):
        dense = dense.unsqueeze(d)
    count = tensor.sparse_dim()
    rows = dense.expand(tensor.shape).reshape(-1, *tensor.shape[count:])
    values = rows.index_select(0, _places(tensor))
    return _sparse_coo_tensor(
        tensor._indices(), values, tensor.shape, coalesced=tensor.is_coalesced()
    )


KERNELS: dict[str, Callable[..., Any]] = {
    "_coalesce": coalesce,
    "_sparse_mask_projection": mask_projection,
    "_sparse_sparse_matmul": product_of_sparse,
    "_sparse_sum_backward": sum_backward,
    "add.Tensor": add,
    "add_.Tensor": add_,
    "addmm": addmm,
    "addmm_": addmm_,
    "bmm": bmm,
    "index_select": index_select,
    "mm": mm,
    "mul.Tensor": mul,
    "mul_.Tensor": mul_,
    "sparse_mask": mask,
    "sub.Tensor": sub,
    "sub_.Tensor": sub_,
}
"""The kernels for calls with a sparse argument."""


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Return the row-major position of each index in the sparse dimensions."""
    indices = tensor._indices()
    places = indices.new_zeros(indices.shape[1])
    for size, index in zip(tensor.shape, indices.unbind(0), strict=False):
        places = places * size + index
    return places


def _indices_of(places: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    indices = []
    for size in reversed(shape):
        indices.append(places.remainder(max(size, 1)))
        places = places.div(max(size, 1), rounding_mode="floor")
    return torch.stack(indices[::-1]) if indices else places.new_empty(0, places.shape[0])


def _sparse_coo_tensor(
    indices: torch.Tensor,
    values: torch.Tensor,
    shape: Sequence[int],
    *,
    coalesced: bool | None = None,
) -> torch.Tensor:
    dims = indices.shape[0]
    return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        dims,
        len(shape) - dims,
        list(shape),
        indices,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=values.device,
        is_coalesced=coalesced,
    )


def _added(base: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    if base.dtype == torch.bool:
        return base.to(torch.uint8).index_add(0, rows, values.to(torch.uint8)).to(torch.bool)
    return base.index_add(0, rows, values)


def _sum(
    op: Callable[..., torch.Tensor],
    one: torch.Tensor,
    other: Any,
    alpha: float,
    *,
    sign: int = 1,
) -> torch.Tensor:
    _dtype(op, one, other, alpha=alpha)
    if not (isinstance(other, torch.Tensor) and other.is_sparse):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if one.shape != other.shape:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(one.shape)} while other has size {list(other.shape)}"
        )
    dtype = torch.result_type(one, other)
    scaled = other._values().to(dtype)
    if dtype != torch.bool and sign * alpha != 1:
        scaled = scaled * (sign * alpha)
    if not one.is_sparse:
        flat = one.to(dtype).reshape(-1, *one.shape[other.sparse_dim() :])
        return _added(flat, _places(other), scaled).reshape(one.shape)
    indices = torch.cat([one._indices(), other._indices()], 1)
    total = _sparse_coo_tensor(indices, torch.cat([one._values().to(dtype), scaled]), one.shape)
    return coalesce(total) if one.is_coalesced() and other.is_coalesced() else total


def _dtype(op: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.dtype:
    """Return the dtype of op's result for dense arguments of these dtypes, or raise op's error."""
    dense = [
        torch.zeros([1] * bool(arg.dim()), dtype=arg.dtype)
        if isinstance(arg, torch.Tensor)
        else arg
        for arg in args
    ]
    return op(*dense, **kwargs).dtype


def _intersection(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of two coalesced tensors, at the indices that are in both."""
    if one.shape != other.shape or one.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"mul: expected sparse tensors of one shape, but {list(one.shape)} != {list(other.shape)}"
        )
    one_positions, other_positions = _matches(_places(one), _places(other))
    values = one._values().index_select(0, one_positions) * other._values().index_select(
        0, other_positions
    )
    return _sparse_coo_tensor(
        one._indices().index_select(1, one_positions), values, one.shape, coalesced=True
    )


def _matches(
    places: torch.Tensor, sorted_places: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the elements of `places` that are in `sorted_places`.

    Return their positions in `places` and in `sorted_places`.
    """
    if not (places.shape[0] and sorted_places.shape[0]):
        return places[:0], places[:0]
    near = torch.searchsorted(sorted_places, places).clamp(max=sorted_places.shape[0] - 1)
    matched = (sorted_places.index_select(0, near) == places).nonzero().reshape(-1)
    return matched, near.index_select(0, matched)


def _product(one: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    if one.dim() != 2 or dense.dim() != 2 or one.shape[1] != dense.shape[0]:
        shapes = " and ".join("x".join(map(str, each.shape)) for each in (one, dense))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes})")
    rows, columns = one._indices().unbind(0)
    dtype = torch.result_type(one, dense)
    parts = one._values().to(dtype)[:, None] * dense.to(dtype).index_select(0, columns)
    return parts.new_zeros(one.shape[0], dense.shape[1]).index_add(0, rows, parts)


def _with_values(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return _sparse_coo_tensor(
        tensor._indices(), values, tensor.shape, coalesced=tensor.is_coalesced()
    )


def _put(tensor: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Convert a result to the tensor's layout (dense or sparse), and write it to the tensor."""
    if tensor.is_sparse:
        return torch.ops.aten.copy_sparse_to_sparse_(tensor, result.to(tensor.dtype))
    return tensor.copy_(result.to_dense() if result.is_sparse else result)


def _must_be_sparse(tensor: torch.Tensor, alternative: str) -> None:
    if not tensor.is_sparse:
        raise NotImplementedError(
            f"tpu: expected a sparse tensor, found a dense one. Use {alternative}, or to_dense()"
        )
