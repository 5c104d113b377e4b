# SPDX-License-Identifier: Apache-2.0
"""Values, layouts and gradients of sparse CSR and CSC tensors match those on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torch_google.tpu import release

pytestmark = pytest.mark.skipif(
    release.V2_6, reason="torch v2.6 has compressed tensors only on its own devices"
)

Op = Callable[[torch.Tensor], torch.Tensor]

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
_LAYOUTS = (torch.sparse_csr, torch.sparse_csc)


def matrix(rows: int = 4, columns: int = 6) -> torch.Tensor:
    """Return a dense matrix with zeros, among them a whole row."""
    dense = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).relu()
    dense[rows // 2] = 0
    return dense


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors of which a tensor consists."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()
        return [tensor.indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.device.type == "tpu"
    assert (actual.layout, actual.shape) == (expected.layout, expected.shape)
    for one, other in zip(parts(actual), parts(expected), strict=True):
        assert one.device.type == "tpu"
        torch.testing.assert_close(one.cpu(), other)


@pytest.mark.parametrize("layout", _COMPRESSED)
def test_converted_from_and_to_dense(layout: torch.layout) -> None:
    block = (2, 3) if layout in _COMPRESSED[2:] else None
    dense = matrix()
    cpu = dense.to_sparse(layout=layout, blocksize=block)
    tpu = dense.to("tpu").to_sparse(layout=layout, blocksize=block)
    same(tpu, cpu)
    same(tpu.to_dense(), dense)
    same(tpu.to_sparse(), cpu.to_sparse())
    same(cpu.to("tpu"), cpu)
    same(tpu.clone(), cpu)
    same(torch.zeros_like(tpu), torch.zeros_like(cpu))
    same(tpu.double(), cpu.double())
    same(tpu.t(), cpu.t())
    assert torch.equal(tpu.cpu().to_dense(), dense)
    assert "nnz=" in repr(tpu)
    batch = torch.stack([dense, dense])
    same(
        batch.to("tpu").to_sparse(layout=layout, blocksize=block),
        batch.to_sparse(layout=layout, blocksize=block),
    )


@pytest.mark.parametrize("target", [torch.sparse_coo, *_LAYOUTS])
@pytest.mark.parametrize("source", [torch.sparse_coo, *_LAYOUTS])
def test_converted_to_another_layout(source: torch.layout, target: torch.layout) -> None:
    for dense in (matrix(), torch.zeros(3, 2), matrix(1, 5)[:0]):
        cpu = dense.to_sparse(layout=source)
        same(cpu.to("tpu").to_sparse(layout=target), cpu.to_sparse(layout=target))


def test_created_from_indices() -> None:
    indices = torch.tensor([0, 2, 2, 3]), torch.tensor([0, 3, 1])
    values = torch.tensor([1.0, 2.0, 3.0])
    on_device = [each.to("tpu") for each in (*indices, values)]
    for create in (torch.sparse_csr_tensor, torch.sparse_csc_tensor):
        size = (3, 4) if create is torch.sparse_csr_tensor else (4, 3)
        for check in (False, True):
            same(
                create(*on_device, size, check_invariants=check),
                create(*indices, values, size),
            )
    with pytest.raises(RuntimeError, match="col_indices < ncols"):
        torch.sparse_csr_tensor(*on_device, (3, 3), check_invariants=True)


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize(
    "op",
    [
        lambda s: s @ torch.arange(18.0, device=s.device).reshape(6, 3),
        lambda s: s @ torch.arange(6.0, device=s.device),
        lambda s: torch.arange(8.0, device=s.device).reshape(2, 4) @ s,
        lambda s: s @ s.t(),
        lambda s: torch.addmm(
            torch.ones(4, 2, device=s.device),
            s,
            torch.ones(6, 2, device=s.device),
            beta=2,
            alpha=0.5,
        ),
        lambda s: s * 2,
        lambda s: 3 * s,
        lambda s: -s.sin(),
        lambda s: s.abs().sqrt_(),
        lambda s: s + s,
        lambda s: torch.ones(4, 6, device=s.device) + s,
        lambda s: s.clone().mul_(3),
        lambda s: s.clone().zero_(),
        lambda s: s.clone().copy_(s * 2),
        lambda s: s.sum(),
    ],
)
def test_operators(op: Op, layout: torch.layout) -> None:
    cpu = matrix().to_sparse(layout=layout)
    same(op(cpu.to("tpu")), op(cpu))


@pytest.mark.parametrize(
    "op",
    [
        lambda s: s * torch.arange(24.0, device=s.device).reshape(4, 6),
        lambda s: s * s.to_dense().roll(1, 1).to_sparse_csr(),
        lambda s: torch.arange(24.0, device=s.device).reshape(4, 6).sparse_mask(s),
        lambda s: torch.sparse.sampled_addmm(
            s, torch.ones(4, 2, device=s.device), torch.ones(2, 6, device=s.device), beta=0.5
        ),
        lambda s: torch.ops.aten._sparse_csr_sum.dim_dtype(s, [1], True),
        lambda s: s[3],
        lambda s: torch.add(s, s.to_dense().roll(1, 1).to_sparse_csr(), alpha=-0.5),
        lambda s: s.add_(s.to_dense().roll(1, 1).to_sparse_csr()),
    ],
)
def test_operators_that_the_cpu_has_for_csr_only(op: Op) -> None:
    same(op(matrix().to("tpu").to_sparse_csr()), op(matrix().to_sparse_csr()))


def _gradients(device: str, step: Callable[[Any, Any], torch.Tensor]) -> list[torch.Tensor]:
    dense = matrix().to(device).requires_grad_()
    weight = torch.arange(18.0, device=device).reshape(6, 3).requires_grad_()
    (step(dense, weight) * 2).sum().backward()
    return [each.grad for each in (dense, weight) if each.grad is not None]


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize(
    "step",
    [
        lambda x, w: x.to_sparse_csr() @ w,
        lambda x, w: x.to_sparse_csc() @ w,
        lambda x, w: x.to_sparse_csr() @ w[:, 0],
        lambda x, w: x.to_sparse_csr().to_dense() @ w,
        lambda x, _: x.to_sparse_csr().values().exp(),
    ],
)
def test_gradients(step: Callable[[Any, Any], torch.Tensor], mode: Any) -> None:
    with torch.tpu.eager_mode(mode):
        for actual, expected in zip(_gradients("tpu", step), _gradients("cpu", step), strict=True):
            same(actual, expected)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_with_a_reduction(reduce: str) -> None:
    results = []
    for device in ("tpu", "cpu"):
        csr = matrix().to(device).to_sparse_csr().requires_grad_()
        dense = torch.linspace(-2, 3, 12, device=device).reshape(6, 2).requires_grad_()
        out = torch.sparse.mm(csr, dense, reduce)
        out.backward(torch.arange(8.0, device=device).reshape(4, 2))
        assert csr.grad is not None
        assert dense.grad is not None
        results.append((out.detach(), csr.grad, dense.grad))
    for actual, expected in zip(*results, strict=True):
        same(actual, expected)
    with pytest.raises(RuntimeError, match="prod has not been enabled"):
        torch.sparse.mm(matrix().to("tpu").to_sparse_csr(), torch.ones(6, 2, device="tpu"), "prod")


def test_a_sparse_parameter_learns() -> None:
    def losses(device: str) -> list[float]:
        weight = matrix().to_sparse_csr().to(device).requires_grad_()
        x = torch.arange(12.0, device=device).reshape(6, 2) / 12
        values = []
        for _ in range(3):
            loss = (weight @ x).square().sum()
            (gradient,) = torch.autograd.grad(loss, weight)
            with torch.no_grad():
                dense = weight.to_dense() - 0.1 * gradient.to_dense()
                weight = dense.sparse_mask(weight.detach()).requires_grad_()
            values.append(loss.item())
        return values

    assert losses("tpu") == pytest.approx(losses("cpu"))


def test_wrong_sizes_raise_as_on_the_cpu() -> None:
    csr = matrix().to("tpu").to_sparse_csr()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        csr @ torch.ones(5, 2, device="tpu")
    with pytest.raises(RuntimeError, match="same dtype"):
        csr @ torch.ones(6, 2, device="tpu", dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda c: c * 2,
        lambda c: c * torch.ones(2, 2, device=c.device),
        lambda c: torch.ones(2, 2, device=c.device).sparse_mask(c),
    ],
)
def test_a_result_has_indices_of_its_own(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    source = torch.eye(2).to("tpu").to_sparse_csr()
    result = function(source)
    result.copy_(torch.tensor([[0.0, 3.0], [4.0, 0.0]]).to("tpu").to_sparse_csr())
    assert result.to_dense().tolist() == [[0, 3], [4, 0]]
    assert source.to_dense().tolist() == [[1, 0], [0, 1]]


def test_an_in_place_operator_rejects_another_kind_of_number() -> None:
    integers = torch.eye(2, dtype=torch.int64).to("tpu").to_sparse_csr()
    with pytest.raises(RuntimeError, match="can't be cast"):
        integers.mul_(2.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        integers.add_(integers.double())
    assert integers.to_dense().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo])
def test_blocks_of_sparse_tensors(layout: torch.layout) -> None:
    dense = torch.tensor([[1.0, 2, 0, 0], [0, 3, 0, 0]])
    sparse = dense.to("tpu").to_sparse(layout=layout)
    for blocks in (sparse.to_sparse_bsr((2, 2)), sparse.to_sparse_bsc((2, 2))):
        torch.testing.assert_close((blocks * 2).to_dense().cpu(), dense * 2)
