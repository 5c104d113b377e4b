# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from tests.conformance import verify

A = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


def test_values_dtypes_and_shapes_count() -> None:
    assert not verify.differs(A, A.clone())
    assert "not close" in verify.differs(A, A + 0.1)
    assert verify.differs(A.double(), A) == "torch.float64, expected torch.float32"
    assert verify.differs(A.T, A) == "shape (3, 5), expected (5, 3)"
    assert verify.differs([A], [A, A]) == "1 results, expected 2"
    assert not verify.differs(float("nan"), float("nan"))


def test_equal_values_may_be_picked_in_any_order() -> None:
    x = torch.tensor([[2.0, 1.0, 2.0]])
    values = torch.tensor([[1.0, 2.0, 2.0]])
    one, other = torch.tensor([[1, 0, 2]]), torch.tensor([[1, 2, 0]])
    assert verify.rebuilt("sort", (x,), {}, (values, one), (values, other)) == ""
    wrong = torch.tensor([[0, 1, 2]])
    assert verify.rebuilt("sort", (x,), {}, (values, wrong), (values, other))


def test_signs_of_a_decomposition_are_free() -> None:
    u, s, v = torch.linalg.svd(A, full_matrices=False)
    args = (A,)
    assert verify.rebuilt("linalg.svd", args, {}, (-u, s, -v), (u, s, v)) == ""
    assert verify.rebuilt("linalg.svd", args, {}, (-u, s, v), (u, s, v))
    assert verify.rebuilt("linalg.svd", args, {}, (u, s + 1, v), (u, s, v))
    q, r = torch.linalg.qr(A)
    assert verify.rebuilt("linalg.qr", args, {}, (-q, -r), (q, r)) == ""
    assert verify.rebuilt("linalg.qr", args, {}, (2 * q, r / 2), (q, r))
    values, vectors = torch.linalg.eigh(A.T @ A)
    symmetric = (A.T @ A,)
    assert verify.rebuilt("linalg.eigh", symmetric, {}, (values, -vectors), (values, vectors)) == ""
    assert verify.rebuilt("linalg.eigh", symmetric, {}, (values, vectors.T), (values, vectors))


@pytest.mark.parametrize("name", ["add", "linalg.cholesky"])
def test_most_operators_have_one_right_result(name: str) -> None:
    assert verify.rebuilt(name, (A,), {}, A, A) is None
