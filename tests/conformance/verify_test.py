# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

from tests.conformance import verify
from tests.conformance.samples import Sample
from tests.conformance.tolerances import Tolerance

A = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
DEFAULT = Tolerance()


def no_exact() -> None:
    return None


differs = partial(verify.differs, close=verify.closeness(DEFAULT, no_exact))


def rebuilt(
    name: str, args: tuple[Any, ...], actual: Sequence[Any], expected: Sequence[Any]
) -> Any:
    return verify.rebuilt(name, Sample(0, args, {}, lambda x: x), actual, expected, DEFAULT)


def test_values_dtypes_and_shapes_count() -> None:
    assert not differs([A], [A.clone()])
    assert "not close" in differs([A], [A + 0.1])
    assert differs([A.double()], [A]) == "torch.float64, expected torch.float32"
    assert differs([A.T], [A]) == "shape (3, 5), expected (5, 3)"
    assert differs([A], [A, A]) == "1 results, expected 2"
    assert not differs([float("nan")], [float("nan")])
    assert differs([None], [A]) == "NoneType, expected a tensor"


@pytest.mark.parametrize(("off", "right"), [(1.0, True), (4.0, False)])
def test_as_far_from_the_exact_value_as_the_cpu_is_right(off: float, right: bool) -> None:
    def exact() -> list[torch.Tensor]:
        return [torch.tensor([1000.0]).double()]

    close = verify.closeness(DEFAULT, exact)
    actual, expected = torch.tensor([1000.0 - off]), torch.tensor([1001.0])
    assert (close(actual, expected, 0) == "") is right


def test_integers_are_equal_or_wrong() -> None:
    one, other = torch.tensor([1, 2]), torch.tensor([1, 3])
    assert verify.differs([one], [other], verify.closeness(DEFAULT, lambda: [one.double()]))


def test_equal_values_may_be_picked_in_any_order() -> None:
    x = torch.tensor([[2.0, 1.0, 2.0]])
    values = torch.tensor([[1.0, 2.0, 2.0]])
    one, other = torch.tensor([[1, 0, 2]]), torch.tensor([[1, 2, 0]])
    assert rebuilt("sort", (x,), (values, one), (values, other)) == ""
    wrong = torch.tensor([[0, 1, 2]])
    assert rebuilt("sort", (x,), (values, wrong), (values, other))


def test_signs_of_a_decomposition_are_free() -> None:
    u, s, v = torch.linalg.svd(A, full_matrices=False)
    args = (A,)
    assert rebuilt("linalg.svd", args, (-u, s, -v), (u, s, v)) == ""
    assert rebuilt("linalg.svd", args, (-u, s, v), (u, s, v))
    assert rebuilt("linalg.svd", args, (u, s + 1, v), (u, s, v))
    q, r = torch.linalg.qr(A)
    assert rebuilt("linalg.qr", args, (-q, -r), (q, r)) == ""
    assert rebuilt("linalg.qr", args, (2 * q, r / 2), (q, r))
    values, vectors = torch.linalg.eigh(A.T @ A)
    symmetric = (A.T @ A,)
    assert rebuilt("linalg.eigh", symmetric, (values, -vectors), (values, vectors)) == ""
    assert rebuilt("linalg.eigh", symmetric, (values, vectors.T), (values, vectors))


@pytest.mark.parametrize("name", ["add", "linalg.cholesky"])
def test_most_operators_have_one_right_result(name: str) -> None:
    assert rebuilt(name, (A,), [A], [A]) is None


def test_of_equal_elements_any_gets_the_gradient() -> None:
    x = torch.tensor([[2.0, 1.0, 2.0], [1.0, 2.0, 3.0]])
    sample = Sample(0, (x, 1), {}, lambda y: y)
    one = torch.tensor([[5.0, 7.0, 6.0], [1.0, 2.0, 3.0]])
    other = torch.tensor([[6.0, 7.0, 5.0], [1.0, 2.0, 3.0]])
    assert verify.tied("sort", sample, [one], [other], DEFAULT) == ""
    assert verify.tied("sort", sample, [one], [other.roll(1, 1)], DEFAULT)
    assert verify.tied("cumsum", sample, [one], [other], DEFAULT) is None
