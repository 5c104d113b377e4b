# SPDX-License-Identifier: Apache-2.0
"""Compiled torch.linalg operators that check for errors match the CPU's results and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from torch_google.tpu.release import V2_6

if V2_6:
    pytest.skip("v2.6 removes the checks from graphs", allow_module_level=True)

linalg = torch.linalg
_EYE = torch.eye(3)

# Each function takes a positive definite matrix.
_CHECKED: dict[str, Callable[[Tensor], Any]] = {
    "inv": linalg.inv,
    "solve": lambda a: linalg.solve(a, a[0]),
    "cholesky": linalg.cholesky,
    "ldl_factor": lambda a: linalg.ldl_factor(a).LD,
    "lu_factor": lambda a: linalg.lu_factor(a).LU,
    "matrix_power": lambda a: linalg.matrix_power(a, -2),
    "tensorinv": lambda a: linalg.tensorinv(a, 1),
    "tensorsolve": lambda a: linalg.tensorsolve(a, a[0]),
    "cond": lambda a: linalg.cond(a, 1),
    "eigh": lambda a: linalg.eigh(a).eigenvalues,
    "eigvalsh": linalg.eigvalsh,
}
# torch has no gradient formula for ldl_factor. The gradient of cond needs a value that cond itself
# overwrites.
_WITHOUT_GRADIENT = ("ldl_factor", "cond")
_SINGULAR = ["inv", "solve", "cholesky", "matrix_power", "tensorinv", "tensorsolve"]


def _matrix(dtype: torch.dtype) -> Tensor:
    torch.manual_seed(0)
    a = torch.randn(3, 3, dtype=dtype)
    return a @ a.mT + 2 * torch.eye(3, dtype=dtype)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="tpu", fullgraph=True, **options)


@pytest.mark.parametrize("name", _CHECKED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    function = _CHECKED[name]
    results = []
    for device, work in (("cpu", function), ("tpu", _compiled(function))):
        a = _matrix(dtype).to(device).requires_grad_(name not in _WITHOUT_GRADIENT)
        y = work(a)
        if a.requires_grad:
            y.sum().backward()
        results.append([y.detach().cpu(), None if a.grad is None else a.grad.cpu()])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", _SINGULAR)
def test_a_matrix_that_is_singular(name: str) -> None:
    function = _CHECKED[name]
    zeros = torch.zeros(3, 3)
    with pytest.raises(linalg.LinAlgError) as expected:
        function(zeros)
    work = _compiled(function)
    with pytest.raises(linalg.LinAlgError) as actual:
        work(zeros.to("tpu"))
    assert str(actual.value) == str(expected.value)
    torch.testing.assert_close(work(_EYE.to("tpu")).cpu(), function(_EYE))


def test_tensors_on_the_cpu() -> None:
    work = _compiled(lambda a: linalg.inv(a.double().mT @ a.double()))
    a = _matrix(torch.float32)
    torch.testing.assert_close(work(a), linalg.inv(a.double().mT @ a.double()))
    with pytest.raises(linalg.LinAlgError, match="singular"):
        work(torch.zeros(3, 3))


def test_the_first_failure_is_raised_and_writes_are_kept() -> None:
    def work(a: Tensor, b: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        count.add_(1)
        return linalg.inv(a), linalg.cholesky(b)

    compiled = _compiled(work)
    count = torch.zeros((), device="tpu")
    zeros, eye = torch.zeros(3, 3, device="tpu"), _EYE.to("tpu")
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.inv"):
        compiled(zeros, zeros, count)
    with pytest.raises(linalg.LinAlgError, match=r"linalg\.cholesky"):
        compiled(eye, zeros, count)
    compiled(eye, eye, count)
    assert count.item() == 3


def test_an_info_that_is_a_result_too() -> None:
    def work(a: Tensor) -> tuple[Tensor, Tensor]:
        inverse, info = linalg.inv_ex(a, check_errors=True)
        return info, inverse

    info, inverse = _compiled(work)(_EYE.to("tpu"))
    assert info.item() == 0
    torch.testing.assert_close(inverse.cpu(), _EYE)


def test_changing_sizes() -> None:
    work = _compiled(linalg.inv, dynamic=True)
    for size in (3, 4, 5):
        torch.testing.assert_close(
            work(2 * torch.eye(size, device="tpu")).cpu(), torch.eye(size) / 2
        )
        with pytest.raises(linalg.LinAlgError):
            work(torch.zeros(size, size, device="tpu"))


def test_a_check_in_a_branch_is_refused() -> None:
    def work(p: Tensor, a: Tensor) -> Tensor:
        branches = (lambda a: linalg.inv(a).mT.clone().contiguous()), (lambda a: (a * 2).clone())
        result: Tensor = torch.cond(p, *branches, (a,))
        return result

    with pytest.raises(NotImplementedError, match="without a check there, such as inv_ex"):
        _compiled(work)(torch.tensor(True, device="tpu"), _EYE.to("tpu"))
