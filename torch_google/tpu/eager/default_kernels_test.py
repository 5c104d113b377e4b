# SPDX-License-Identifier: Apache-2.0
"""By default, calls run on CPU kernels first. Calls that recur get programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch.fx.experimental.proxy_tensor import make_fx

from torch_google.tpu import _C

_ROUNDS = 3  # kRounds in ../csrc/cpu_kernels.cpp
_STABLE_ROUNDS = 4  # kStableRounds, counted from the round after the last new call


@pytest.fixture(autouse=True)
def _default_setting() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(None)
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


def _gradient(x: torch.Tensor) -> torch.Tensor:
    x = x.requires_grad_()
    _loss(x).backward()
    assert x.grad is not None
    return x.grad.cpu()  # the host reads a value, so the round ends


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_new_sizes_compile_nothing(mode: str) -> None:
    torch.tpu.set_eager_mode(mode)
    for size in range(3, 3 + 2 * _ROUNDS):
        actual, expected = _gradient(_numbers(size).to("tpu")), _gradient(_numbers(size))
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        assert _compile_count() == 0 or (mode == "fused" and size >= 2 + _ROUNDS)
    # Calls on scalars have the same sizes in each round. In fused mode, they get programs.
    scalar_compiles = _compile_count()
    for size in range(20, 40):
        _gradient(_numbers(size).to("tpu"))
    assert _compile_count() == scalar_compiles < 10


@pytest.mark.parametrize(
    ("mode", "rounds"), [("strict", 1 + _STABLE_ROUNDS), ("fused", _ROUNDS - 1)]
)
def test_calls_that_recur_get_programs(mode: str, rounds: int) -> None:
    torch.tpu.set_eager_mode(mode)
    expected = _gradient(_numbers(8))
    counts = []
    for _ in range(rounds + 3):
        actual = _gradient(_numbers(8).to("tpu"))
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        counts.append((_compile_count(), _kernel_count()))
    assert counts[rounds - 1][0] == 0 < counts[rounds][0]
    assert counts[-1] == counts[rounds + 1]  # all calls have programs


def test_a_new_call_delays_the_programs_of_strict_mode() -> None:
    x = _numbers(6).to("tpu")
    for size in range(10, 20):
        x.tan().cpu()
        _numbers(size).to("tpu").cos()
    assert _compile_count() == 0
    for _ in range(1 + _STABLE_ROUNDS):
        assert _compile_count() == 0
        x.tan().cpu()
    x.tan().cpu()
    assert _compile_count() == 1


def test_calls_with_a_program_keep_it() -> None:
    x = _numbers(100).to("tpu")
    torch.tpu.set_cpu_kernels(False)
    before = x.exp().cpu()
    torch.tpu.set_cpu_kernels(None)
    assert torch.equal(x.exp().cpu(), before)
    assert _kernel_count() == 0
    assert torch.equal(_numbers(101).to("tpu").exp().cpu(), _numbers(101).exp())
    assert _kernel_count() == 1


def test_the_change_to_programs_counts_rounds_not_calls() -> None:
    torch.tpu.set_eager_mode("fused")
    x = _numbers(5).to("tpu")
    for _ in range(4 * _ROUNDS):
        x.tan()
    for _ in range(_ROUNDS):
        assert torch.tpu.metrics().misses == 0
        x.tan().cpu()
    assert torch.tpu.metrics().misses == 1


@pytest.mark.parametrize("sizes", ["fake", "symbolic"])
def test_only_graphs_with_symbolic_sizes_use_the_math_implementation(sizes: str) -> None:
    q = torch.ones(1, 2, 4, 8, device="tpu")
    graph = make_fx(lambda q: F.scaled_dot_product_attention(q, q, q), tracing_mode=sizes)(q)
    is_whole = "_scaled_dot_product_efficient_attention" in graph.code
    assert is_whole == (sizes == "fake")
    assert ("softmax" in graph.code) != is_whole


def test_size_buckets_take_precedence() -> None:
    """If the user asks for padding, changing sizes run as programs on padded arrays."""
    assert _C.uses_cpu_kernels()
    torch.tpu.set_size_buckets(True)
    try:
        assert torch.tpu.get_cpu_kernels() is None
        assert not _C.uses_cpu_kernels()
        for size in range(2, 12):
            _numbers(size).to("tpu").cosh().sum().item()
        assert _kernel_count() == 0
        assert torch.tpu.metrics().padded["sizes"] > 0
        torch.tpu.set_cpu_kernels(True)
        assert _C.uses_cpu_kernels()
        torch.tpu.set_cpu_kernels(None)
    finally:
        torch.tpu.set_size_buckets(None)
    assert _C.uses_cpu_kernels()


def test_debug_mode_runs_programs() -> None:
    with torch.tpu.eager_mode("debug"):
        _numbers(7).to("tpu").tan().sum().item()
    assert _compile_count() > 0 == _kernel_count()
