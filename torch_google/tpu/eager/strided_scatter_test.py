# SPDX-License-Identifier: Apache-2.0
"""Operators that need a view's whole storage return the CPU's values, strides and offset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

_Scatter = Callable[[torch.Tensor], torch.Tensor]

_SCATTERS: dict[str, _Scatter] = {
    "as_strided": lambda x: x.as_strided_scatter(x[:2, 1] * 2, (2,), (2,), 1),
    "diagonal": lambda x: x.diagonal_scatter(x.diagonal(1) * 2, 1),
    "select": lambda x: x.select_scatter(x[0] * 2, 0, -1),
    "slice": lambda x: x.slice_scatter(x[:, :2] * 2, 1, 0, 4, 2),
}
_VIEWS: dict[str, _Scatter] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.t()[:6, :4],
    "every second column": lambda x: x[:, ::2],
    "an offset": lambda x: x[1:, 2:],
    "the first rows": lambda x: x[:4],
    "expanded": lambda x: x[:, :1].expand(6, 5),
    "windows": lambda x: x.reshape(-1).unfold(0, 4, 2)[:6],
    "real parts": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(6, 6, 2)))[..., 0],
}


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("scatter", _SCATTERS)
@pytest.mark.parametrize("view", _VIEWS)
def test_a_result_lies_as_on_the_cpu(view: str, scatter: str, mode: str) -> None:
    def run(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        x = _VIEWS[view](torch.arange(72.0).reshape(6, 12).to(device)).detach()
        if scatter == "as_strided":  # torch asserts contiguous input if it needs a gradient
            return _SCATTERS[scatter](x), x
        out = _SCATTERS[scatter](x.requires_grad_())
        (grad,) = torch.autograd.grad(out.square().sum(), x)
        return out.detach(), grad

    with torch.tpu.eager_mode(mode):
        results = run("tpu")
    for actual, expected in zip(results, run("cpu"), strict=True):
        assert (actual.stride(), actual.storage_offset()) == (
            expected.stride(),
            expected.storage_offset(),
        )
        torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("mode", ["strict", "fused", "debug", "compile"])
@pytest.mark.parametrize("offset", [None, 0, 3])
@pytest.mark.parametrize("view", _VIEWS)
def test_strided_copies_and_scatters_use_positions_in_the_storage(
    view: str, offset: int | None, mode: str
) -> None:
    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        source = torch.full((2, 3), -1.0, device=x.device)
        return (
            x.as_strided((2, 3), (5, 2), offset) * 2,
            torch.as_strided_copy(x, (2, 3), (5, 2), offset),
            torch.as_strided_scatter(x, source, (2, 3), (5, 2), offset),
        )

    expected = run(_VIEWS[view](torch.arange(72.0).reshape(6, 12)))
    torch._dynamo.reset()
    function = torch.compile(run) if mode == "compile" else run
    x = _VIEWS[view](torch.arange(72.0).reshape(6, 12).to("tpu"))
    try:
        with torch.tpu.eager_mode("strict" if mode == "compile" else mode):
            actual = function(x)
    except NotImplementedError as error:
        assert mode == "compile"
        assert "memory outside of its argument" in str(error)  # noqa: PT017 - only some views raise
        return
    for result, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(result.cpu(), reference)


def test_a_compiled_as_strided_reads_the_tensor_that_owns_the_memory() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        half = (x + 1).t()[1:]
        return half.as_strided((2, 3), (1, 2), 0) * half.as_strided((2, 3), (3, 1)).sum()

    x = torch.arange(12.0).reshape(3, 4)
    torch.testing.assert_close(torch.compile(function)(x.to("tpu")).cpu(), function(x))


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_source_of_another_shape_is_refused(device: str) -> None:
    x = torch.zeros(4, 6, device=device)[:, ::2]
    with pytest.raises(RuntimeError, match="src"):
        x.slice_scatter(x[:1, :1], 0, 0, 2)
    with pytest.raises(RuntimeError, match="src"):
        x.select_scatter(x[:1, :1], 0, 0)
