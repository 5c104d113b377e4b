# SPDX-License-Identifier: Apache-2.0
"""Values and gradients of sparse COO tensors match those on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

Op = Callable[[torch.Tensor], torch.Tensor]


def matrix(seed: int = 0, *, dense_columns: int = 0) -> torch.Tensor:
    """Return a sparse 4 x 5 matrix with two values at the same index."""
    torch.manual_seed(seed)
    indices = torch.tensor([[0, 1, 1, 3, 0], [2, 0, 4, 1, 2]])
    values = torch.randn(5, *[dense_columns] * bool(dense_columns))
    return torch.sparse_coo_tensor(indices, values, (4, 5, *[dense_columns] * bool(dense_columns)))


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.layout == expected.layout
    assert actual.device.type == "tpu"
    if expected.is_sparse:
        assert actual.is_coalesced() == expected.is_coalesced()
        assert actual.shape == expected.shape
        actual, expected = actual.coalesce(), expected.coalesce()
        assert torch.equal(actual.indices().cpu(), expected.indices())
        actual, expected = actual.values(), expected.values()
    torch.testing.assert_close(actual.cpu(), expected)


def test_made_moved_and_coalesced() -> None:
    cpu_matrix = matrix()
    indices, values = cpu_matrix._indices().to("tpu"), cpu_matrix._values().to("tpu")
    same(torch.sparse_coo_tensor(indices, values, (4, 5)), cpu_matrix)
    same(cpu_matrix.to("tpu").coalesce(), cpu_matrix.coalesce())
    same(matrix(dense_columns=2).to("tpu").coalesce(), matrix(dense_columns=2).coalesce())
    assert torch.equal(cpu_matrix.to("tpu").cpu().to_dense(), cpu_matrix.to_dense())
    same(cpu_matrix.to("tpu").to_dense(), cpu_matrix.to_dense())
    same(cpu_matrix.to_dense().to("tpu").to_sparse(), cpu_matrix.to_dense().to_sparse())
    same(cpu_matrix.to_dense().to("tpu").to_sparse(1), cpu_matrix.to_dense().to_sparse(1))
    same(torch.zeros(2, 3, device="tpu").to_sparse(), torch.zeros(2, 3).to_sparse())
    assert "nnz=5" in repr(cpu_matrix.to("tpu"))


@pytest.mark.parametrize(
    "op",
    [
        lambda s: s * 2,
        lambda s: s / 4,
        lambda s: s + s,
        lambda s: s.coalesce() - (s * 3).coalesce(),
        lambda s: s.coalesce() * (s + s).coalesce(),
        lambda s: s * torch.arange(5.0, device=s.device),
        lambda s: torch.ones(4, 5, device=s.device) + s,
        lambda s: torch.ones(4, 5, device=s.device).add_(s, alpha=-0.5),
        lambda s: s.clone().mul_(2),
        lambda s: s.t(),
        lambda s: s.transpose(0, 1).coalesce(),
        lambda s: s.unsqueeze(1),
        lambda s: torch.cat([s, s], 1),
        lambda s: s.coalesce().abs().sqrt(),
        lambda s: s.neg(),
        lambda s: s.double(),
        lambda s: s.index_select(0, torch.tensor([3, 0, 0], device=s.device)),
        lambda s: torch.ones(4, 5, device=s.device).sparse_mask(s.coalesce()),
        lambda s: (s * 2).sparse_mask(s.coalesce()),
        lambda s: torch.sparse.sum(s),
        lambda s: torch.sparse.sum(s, 0),
        lambda s: torch.zeros_like(s),
        lambda s: s @ torch.ones(5, 3, device=s.device),
        lambda s: s.mv(torch.ones(5, device=s.device)),
        lambda s: torch.ones(3, 4, device=s.device) @ s,
        lambda s: torch.sparse.mm(s, s.t()),
    ],
)
def test_operators(op: Op) -> None:
    same(op(matrix().to("tpu")), op(matrix()))


_PAIRS = {
    "of two sparse": lambda s, t: (s, t.to_sparse()),
    "sparse and dense": lambda s, t: (s, t),
    "dense and sparse": lambda s, t: (s.to_dense(), t.to_sparse()),
    "sparse and a row": lambda s, t: (s, t[0]),
    "a row and sparse": lambda s, t: (s.to_dense()[0], t.to_sparse()),
    "sparse and a number": lambda s, t: (s, t[0, 2].item()),
    "sparse and its tensor": lambda s, t: (s, t[0, 2]),
    "sparse and sparse of no dimension": lambda s, t: (s, t[0, 2].to_sparse()),
    "of no dimension and dense": lambda s, t: (s.to_dense()[0, 2].to_sparse(), t),
}
_DTYPES = (torch.bool, torch.int32, torch.float32, torch.float64)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "add_", "sub_", "mul_"])
@pytest.mark.parametrize("pair", _PAIRS)
def test_operands_of_two_dtypes(name: str, pair: str) -> None:
    if name == "mul_" and pair == "of no dimension and dense":
        # The CPU does not raise an error here, but changes the shape of `small`.
        small, dense = _PAIRS[pair](matrix().to("tpu"), torch.ones(4, 5, device="tpu"))
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            small.mul_(dense)
        return
    for one, other in itertools.product(_DTYPES, _DTYPES):
        _as_on_the_cpu(name, *_PAIRS[pair](matrix().to(one), (10 * matrix(1).to_dense()).to(other)))


def _as_on_the_cpu(name: str, one: torch.Tensor, other: Any) -> None:
    expected = _outcome(name, one.clone(), other)
    moved = other.to("tpu") if isinstance(other, torch.Tensor) else other
    actual = _outcome(name, one.to("tpu"), moved)
    if isinstance(expected, Exception):
        # Ignore two kinds of CPU errors: the CPU lacks kernels for some sparse bool tensors, and
        # does not promote the dtype of a broadcast tensor.
        if "not implemented for 'Bool'" in str(expected):
            return
        if name == "mul" and "dtype of values" in str(expected):
            return
        assert type(actual) is type(expected), f"{expected!r} was expected, but was {actual!r}"
        return
    assert not isinstance(actual, Exception), actual
    assert (actual.layout, actual.dtype) == (expected.layout, expected.dtype)
    torch.testing.assert_close(actual.to_dense().cpu(), expected.to_dense())


def _outcome(name: str, one: torch.Tensor, other: Any) -> torch.Tensor | Exception:
    try:
        actual: torch.Tensor = getattr(one, name)(other)
    except (RuntimeError, TypeError) as error:
        return error
    return actual


def test_batches() -> None:
    torch.manual_seed(0)
    dense = torch.randn(2, 3, 4) * (torch.rand(2, 3, 4) > 0.5)
    other = torch.randn(2, 4, 5)
    actual = torch.bmm(dense.to("tpu").to_sparse(), other.to("tpu"))
    torch.testing.assert_close(actual.cpu(), torch.bmm(dense, other))


@pytest.mark.full
def test_gradients_of_products() -> None:
    actual = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        tensor = matrix()
        values = tensor._values().to(device).requires_grad_()
        sparse = torch.sparse_coo_tensor(tensor._indices().to(device), values, (4, 5))
        dense = torch.randn(5, 3).to(device).requires_grad_()
        bias = torch.randn(4, 3).to(device).requires_grad_()
        out = torch.sparse.addmm(bias, sparse, dense, beta=0.5, alpha=2)
        out = out + torch.sparse.mm(sparse, dense) + torch.sparse.sum(sparse, 1).to_dense()[:, None]
        actual.append([out, *torch.autograd.grad(out.pow(2).sum(), [values, dense, bias])])
    for cpu_result, device_result in zip(*actual, strict=True):
        torch.testing.assert_close(device_result.cpu(), cpu_result)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("coalesced", [True, False])
def test_gradients_of_a_mask(dense: bool, coalesced: bool) -> None:
    actual = []
    for device in ("cpu", "tpu"):
        where = matrix().coalesce() if coalesced else matrix()
        cpu_tensor = matrix(1).to_dense() if dense else matrix(1).coalesce()
        tensor = cpu_tensor.to(device).requires_grad_()
        masked = tensor.sparse_mask(where.to(device))
        (grad,) = torch.autograd.grad(masked.to_dense().pow(2).sum(), [tensor])
        actual.append(grad.to_dense())
    torch.testing.assert_close(actual[1].cpu(), actual[0])


@pytest.mark.parametrize("name", ["SGD", "SparseAdam", "Adagrad"])
def test_embeddings_with_sparse_gradients(name: str) -> None:
    actual = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 3, sparse=True).to(device)
        optimizer = getattr(torch.optim, name)(table.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([1, 2, 1], device=device)).pow(2).sum().backward()
            assert table.weight.grad.is_sparse
            optimizer.step()
        actual.append(table.weight.detach().cpu())
    torch.testing.assert_close(*actual)


@pytest.mark.parametrize(
    ("mode", "sparse"),
    [("sum", True), ("mean", True), ("sum", False), ("mean", False), ("max", False)],
)
def test_bags_of_embeddings_have_the_gradients_that_they_ask_for(mode: str, sparse: bool) -> None:
    actual = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        table = torch.nn.EmbeddingBag(6, 3, mode=mode, sparse=sparse, padding_idx=0).to(device)
        numbers = torch.tensor([1, 2, 1, 0, 4], device=device)
        table(numbers, torch.tensor([0, 3], device=device)).pow(2).sum().backward()
        assert table.weight.grad.is_sparse is sparse
        actual.append(table.weight.grad.to_dense().cpu())
    torch.testing.assert_close(*actual)


def test_what_has_no_kernel_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="_sparse_softmax"):
        torch.sparse.softmax(matrix().to("tpu"), 0)
