# SPDX-License-Identifier: Apache-2.0
"""The results and gradients of random graphs on padded arrays match those on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import is_full
from torch_google.tpu.compile.random_graphs import STEPS, GraphStep, function, inputs, possible

_SIZES = [(5, 3), (9, 12), (2, 7), (11, 6)]

_steps = st.lists(
    st.builds(
        GraphStep,
        st.sampled_from(sorted(STEPS)),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    min_size=4,
    max_size=10,
)


@pytest.mark.full
@settings(
    max_examples=6 if is_full() else 2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=_steps)
def test_a_random_graph(steps: list[GraphStep]) -> None:
    check(possible(steps))


@pytest.mark.parametrize("name", sorted(STEPS)[:: 1 if is_full() else 3])
def test_each_step_alone(name: str) -> None:
    candidates = [GraphStep(name, 0, s, a, b) for a, b, s in ((0, 0, 0), (1, 1, 0), (2, 2, 3))]
    candidates += [GraphStep(name, f, 3, 1, 2) for f in (1, 2, 3)]
    steps = possible(candidates)
    assert steps
    check(steps, _SIZES[1:3])


def check(steps: Sequence[GraphStep], sizes_of_calls: Sequence[tuple[int, int]] = _SIZES) -> None:
    """Check that a function's results on the device and the CPU agree, in several buckets."""
    if not steps:
        return
    run = function(steps)
    torch._dynamo.reset()
    torch.tpu.reset_metrics()
    compiled = torch.compile(run, fullgraph=True, backend="tpu")
    for sizes in sizes_of_calls:
        cpu_inputs = [x.requires_grad_() for x in inputs(*sizes)]
        device_inputs = [x.detach().to("tpu").requires_grad_() for x in cpu_inputs]
        for x, dims in zip(device_inputs, ((0, 1), (0,), (0,), (0, 1)), strict=True):
            for dim in dims:
                torch._dynamo.maybe_mark_dynamic(x, dim)
        expected, actual = run(*cpu_inputs), compiled(*device_inputs)
        for step, a, b in zip(steps, expected, actual, strict=True):
            assert b.shape == a.shape, step
            assert b.stride() == a.stride() or a.numel() < 2, step
            torch.testing.assert_close(
                b.detach().cpu(), a.detach(), rtol=1e-3, atol=1e-4, equal_nan=True
            )
        _backward(expected, cpu_inputs)
        _backward(actual, device_inputs)
        for x, y in zip(cpu_inputs, device_inputs, strict=True):
            assert (x.grad is None) == (y.grad is None)
            if x.grad is not None and y.grad is not None:
                torch.testing.assert_close(
                    y.grad.cpu(), x.grad, rtol=1e-2, atol=1e-3, equal_nan=True
                )
    assert torch.tpu.metrics().exact == {}, steps


def _backward(results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]) -> None:
    total = [x.cos().mean() for x in results if x.requires_grad]
    if total:
        torch.stack(total).sum().backward()
