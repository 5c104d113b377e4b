# SPDX-License-Identifier: Apache-2.0
"""Results for nested tensors with the layout `torch.jagged` match the CPU's."""

from __future__ import annotations

import pytest
import torch

from torch_google.tpu.release import V2_6

_ROWS = [torch.arange(6.0).reshape(2, 3), torch.empty(0, 3), torch.arange(12.0).reshape(4, 3) - 7]


def _jagged(device: str) -> torch.Tensor:
    rows = [row.to(device) for row in _ROWS]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, device=device, requires_grad=True)


@pytest.mark.skipif(V2_6, reason="v2.6 cannot multiply jagged tensors by a matrix in training")
@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
def test_padded_unbound_and_computed_as_on_the_cpu(mode: str) -> None:
    results = []
    for device in ("cpu", "tpu"):
        with torch.tpu.eager_mode(mode):
            x = _jagged(device)
            y = torch.nn.functional.gelu(x) @ torch.ones(3, 2, device=device)
            padded = torch.nested.to_padded_tensor(y, -1.0)
            (padded * padded).sum().backward()
            parts = [*y.unbind(), padded, x.grad.values()]
            results.append([part.detach().cpu() for part in parts])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("total", [6, None])
def test_padded_to_jagged(total: int | None) -> None:
    dense, offsets = torch.arange(36.0).reshape(3, 4, 3), torch.tensor([0, 2, 2, 6])
    op = torch.ops.aten._padded_dense_to_jagged_forward
    expected = op(dense, [offsets], total)
    assert torch.equal(op(dense.to("tpu"), [offsets.to("tpu")], total).cpu(), expected)
