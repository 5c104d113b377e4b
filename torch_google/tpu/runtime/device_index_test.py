# SPDX-License-Identifier: Apache-2.0
"""Test device arguments of every accepted form, and index tensors on another device."""

from __future__ import annotations

import pytest
import torch


def test_a_device_that_is_not_there_is_refused_at_once() -> None:
    refusal = r"no device tpu:63; this process has \d+"
    for make in (torch.empty, torch.ones, torch.randn):
        with pytest.raises(RuntimeError, match=refusal):
            make(2, device="tpu:63")
    with pytest.raises(RuntimeError, match=refusal):
        torch.Generator("tpu:63")


def test_indices_on_the_cpu_take_and_put_elements() -> None:
    def work(device: str) -> list[torch.Tensor]:
        x = torch.arange(12.0, device=device).reshape(4, 3).requires_grad_()
        rows, columns = torch.tensor([0, 2]), torch.tensor([[1], [2]])
        mask = torch.tensor([True, False, True, True])
        taken = [x[rows], x[rows, columns], x[mask], x[:, torch.tensor([True, False, True])]]
        taken.append(x[rows, torch.tensor([1, 0], device=device)])
        torch.cat([(t * t).flatten() for t in taken]).sum().backward()
        y = x.detach().clone()
        y[rows] = -1.0
        y[rows, 1] += 5
        y[mask, 0] = torch.arange(3.0, device=device)
        y.index_put_((rows, rows), torch.tensor(2.0, device=device), accumulate=True)
        y[..., torch.tensor(1)] *= 2
        assert x.grad is not None
        return [*(t.detach() for t in taken), x.grad, y]

    for actual, expected in zip(work("tpu"), work("cpu"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


def test_a_mask_of_bytes_warns_once_for_each_use() -> None:
    x = torch.arange(3.0, device="tpu")
    for mask in (torch.tensor([1, 0, 1], dtype=torch.uint8), torch.zeros(3, dtype=torch.uint8)):
        with pytest.warns(UserWarning, match=r"torch\.uint8 is deprecated") as taken:
            result = x[mask.to("tpu")]
        assert len(taken) == 1
        torch.testing.assert_close(result.cpu(), x.cpu()[mask.bool()])
        with pytest.warns(UserWarning, match=r"torch\.uint8 is deprecated") as put:
            x.index_put_((mask.to("tpu"),), result, accumulate=True)
        assert len(put) == 1
    assert x.tolist() == [0, 1, 4]


def test_scripted_functions_index() -> None:
    @torch.jit.script
    def put(x: torch.Tensor) -> torch.Tensor:
        x[x < 2] = 5.0
        return x[x > 3]

    assert put(torch.arange(5.0, device="tpu")).tolist() == [5, 5, 4]


def test_values_on_the_cpu_are_still_refused() -> None:
    x = torch.zeros(3, device="tpu")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x[torch.tensor([0, 1])] = torch.ones(2)
