# SPDX-License-Identifier: Apache-2.0
"""Graphs keep the default dtype that torch had when they were traced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _default(tmp_path: Path) -> Iterator[None]:
    torch.tpu.set_compile_cache(tmp_path)
    yield
    torch.set_default_dtype(torch.float32)
    torch.tpu.set_compile_cache(None)


def test_the_compile_cache_keeps_the_programs_of_one_graph_apart() -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.5).to(torch.int64)

    x = torch.tensor([2**24 + 1])  # float32 cannot represent this number
    assert work(x).item() == 25165824
    for dtype in (torch.float32, torch.float64):
        torch._dynamo.reset()
        torch.set_default_dtype(dtype)
        assert torch.compile(work)(x.to("tpu")).tolist() == work(x).tolist()


def test_a_graph_keeps_the_dtype_that_it_came_about_with() -> None:
    x, y = torch.arange(100, dtype=torch.int8), torch.ones(100, device="tpu", requires_grad=True)
    expected = (x * 0.1).tolist()
    # The forward call also compiles the backward program. The backward program recomputes the
    # floats from the integers, which are saved instead because they are smaller.
    actual = torch.compile(lambda x, y: y * (x * 0.1))(x.to("tpu"), y)
    torch.set_default_dtype(torch.float64)
    actual.sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == expected
