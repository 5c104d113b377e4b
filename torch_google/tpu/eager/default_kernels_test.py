# SPDX-License-Identifier: Apache-2.0
"""By default, calls without a program run on CPU kernels after sizes have kept changing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from torch_google.tpu import _C
from torch_google.tpu.eager import changing_calls

_ROUNDS = 5  # as in size_patterns.py


@pytest.fixture(autouse=True)
def _default_setting() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(None)
    changing_calls.forget()
    _C.clear_programs()
    torch.tpu.reset_metrics()
    yield
    torch.tpu.set_eager_mode("strict")
    torch.tpu.set_cpu_kernels(before)


def _compile_count() -> int:
    torch.tpu.wait_for_compiles()
    return torch.tpu.metrics().compiles


def _kernel_count() -> int:
    return torch.tpu.metrics().cpu_kernels


def _numbers(size: int) -> torch.Tensor:
    return torch.linspace(-2, 2, 3 * size).reshape(3, size)


def _loss(x: torch.Tensor) -> torch.Tensor:
    attended = F.scaled_dot_product_attention(*[x.reshape(1, 1, *x.shape)] * 3)
    return (attended.softmax(-1) * x).sum()


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_changing_sizes_end_compilation(mode: str) -> None:
    torch.tpu.set_eager_mode(mode)
    counts = []
    for size in range(3, 20):
        loss = _loss(_numbers(size).to("tpu")).item()
        assert loss == pytest.approx(_loss(_numbers(size)).item(), rel=1e-4)
        counts.append((_compile_count(), _kernel_count()))
    assert counts[_ROUNDS - 2][1] == 0
    # Fused mode also compiles the calls on scalars, whose sizes do not change, once they have run
    # on CPU kernels in three rounds.
    after = _ROUNDS + (1 if mode == "strict" else 5)
    assert counts[-1][0] == counts[after][0]
    assert counts[-1][1] > counts[after][1] > 0


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_sizes_that_recur_run_programs(mode: str) -> None:
    """Training and evaluation with two sizes each, and parameters of many sizes."""
    torch.tpu.set_eager_mode(mode)
    parameters = [torch.ones(size, device="tpu") for size in range(2, 30)]
    for _ in range(4):
        for size in (8, 5, 16, 3):
            _loss(_numbers(size).to("tpu")).item()
            for parameter in parameters:
                parameter.mul_(0.5)
    assert _kernel_count() == 0


def test_calls_with_a_program_keep_it() -> None:
    x = _numbers(100).to("tpu")
    before = x.exp().sum(1).cpu()
    _change_sizes()
    kernels = _kernel_count()
    assert torch.equal(x.exp().sum(1).cpu(), before)
    assert _kernel_count() == kernels
    new = _numbers(101).to("tpu")
    assert torch.equal(new.exp().cpu(), new.exp().cpu())
    assert _kernel_count() == kernels + 2


def test_the_switch_to_kernels_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    _change_sizes()
    _change_sizes(torch.cos)
    (text,) = [text for text in caplog.messages if "keep changing" in text]
    assert "default_kernels_test.py" in text
    assert "torch.tpu.set_cpu_kernels(False)" in text


def test_setting_the_default_forgets_changing_sizes() -> None:
    _change_sizes()
    assert _C.uses_cpu_kernels()
    assert torch.tpu.get_cpu_kernels() is None
    torch.tpu.set_cpu_kernels(False)
    _assert_each_size_compiles(torch.sinh)
    torch.tpu.set_cpu_kernels(None)
    assert not _C.uses_cpu_kernels()


def test_size_buckets_take_precedence() -> None:
    """If the user asks for padding, changing sizes run as programs on padded arrays."""
    _change_sizes()
    assert _C.uses_cpu_kernels()
    torch.tpu.set_size_buckets(True)
    try:
        _change_sizes(torch.cosh)
    finally:
        torch.tpu.set_size_buckets(None)
    assert not _C.uses_cpu_kernels()
    assert torch.tpu.metrics().padded["sizes"] > 0


def test_debug_mode_runs_programs() -> None:
    _change_sizes()
    kernels = _kernel_count()
    with torch.tpu.eager_mode("debug"):
        _assert_each_size_compiles(torch.tan)
    assert _kernel_count() == kernels


def _change_sizes(function: Callable[[torch.Tensor], torch.Tensor] = torch.sin) -> None:
    for size in range(2, 2 + 2 * _ROUNDS):
        function(_numbers(size).to("tpu")).sum().item()


def _assert_each_size_compiles(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    before = _compile_count()
    for size in range(40, 40 + 2 * _ROUNDS):
        function(_numbers(size).to("tpu")).sum().item()
    assert _compile_count() >= before + 2 * _ROUNDS
