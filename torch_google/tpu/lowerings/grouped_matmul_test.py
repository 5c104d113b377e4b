# SPDX-License-Identifier: Apache-2.0
"""Results of grouped matmuls match the CPU's, however the rows are divided into groups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_google.tpu.lowerings.grouped_matmul  # noqa: F401 (registers)
from tools.par.testing.budget import examples
from torch_google.tpu.lowerings import against_cpu
from torch_google.tpu.release import has_operator

if not has_operator("aten::_grouped_mm"):
    pytest.skip("torch v2.6 has no grouped products", allow_module_level=True)

_OP = torch.ops.aten._grouped_mm.default
_DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def _operands(split: str, dtype: torch.dtype, count: int, groups: int) -> tuple[Any, Any]:
    """Return operands with `count` rows, columns or inner elements to divide into groups."""
    shapes = {
        "rows": ((count, 8), (groups, 8, 16)),
        "columns": ((groups, 8, 16), (16, count)),
        "inner": ((8, count), (count, 16)),
    }
    return tuple(torch.randn(shape).to(dtype) for shape in shapes[split])


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("split", ["rows", "columns", "inner"])
def test_groups_of_several_tiles(split: str, dtype: torch.dtype) -> None:
    offsets = torch.tensor([0, 130, 130, 257, 400], dtype=torch.int32)
    against_cpu.check(_OP, *_operands(split, dtype, 400, 5), offsets)


def test_batches_without_offsets() -> None:
    against_cpu.check(_OP, torch.randn(3, 5, 8), torch.randn(3, 8, 4))


def test_no_rows() -> None:
    offsets = torch.zeros(3, dtype=torch.int32)
    against_cpu.check(_OP, *_operands("rows", torch.float32, 0, 3), offsets)


def _product(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
    return torch.nn.functional.grouped_mm(a, b.mT if b.ndim == 3 else b, offs=offsets)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("split", ["rows", "columns", "inner", "batches"])
def test_compiled_with_gradients(split: str, dtype: torch.dtype) -> None:
    shapes = {
        "rows": ((16, 8), (4, 16, 8)),
        "columns": ((4, 8, 16), (16, 16)),
        "inner": ((8, 16), (16, 16)),
        "batches": ((4, 8, 16), (4, 24, 16)),
    }[split]
    torch.manual_seed(0)
    operands = [torch.randn(shape).to(dtype) for shape in shapes]
    ends = torch.tensor([4, 4, 12, 16], dtype=torch.int32)
    offsets = None if split == "batches" else ends
    results = []
    torch._dynamo.reset()
    works: dict[str, Any] = {"cpu": _product, "tpu": torch.compile(_product, backend="tpu")}
    for device, work in works.items():
        leaves = [t.detach().to(device).requires_grad_() for t in operands]
        y = work(*leaves, None if offsets is None else offsets.to(device))
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y))
        results.append([y.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=tolerance)


@given(ends=st.lists(st.integers(0, 40), min_size=1, max_size=6).map(sorted), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_offsets(ends: list[int], data: st.DataObject) -> None:
    split = data.draw(st.sampled_from(["rows", "columns", "inner"]))
    offsets = torch.tensor(ends, dtype=torch.int32)
    operands = _operands(split, torch.float32, 40, len(ends))
    expected = _OP(*operands, offsets)
    actual = against_cpu.to_tensor(against_cpu.lowered(_OP, *operands, offsets)[0])
    # Past the last offset, the CPU's result is uninitialized.
    end = slice(ends[-1])
    within: Any = {"rows": (end,), "columns": (..., end), "inner": (...,)}[split]
    torch.testing.assert_close(actual[within], expected[within])


def test_an_infinite_matrix_affects_its_group_only() -> None:
    a, b = torch.ones(6, 8), torch.ones(2, 8, 4)
    b[0] = torch.inf
    offsets = torch.tensor([2, 6], dtype=torch.int32)
    (result,) = against_cpu.lowered(_OP, a, b, offsets)
    assert against_cpu.to_tensor(result)[:, 0].tolist() == [torch.inf] * 2 + [8.0] * 4
