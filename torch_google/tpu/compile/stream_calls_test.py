# SPDX-License-Identifier: Apache-2.0
"""Test that compiled functions make stream and event calls after launching their program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torch_google.tpu.compile.stream_calls import StreamCall
from torch_google.tpu.release import V2_6

pytestmark = pytest.mark.skipif(V2_6, reason="v2.6's Dynamo cannot trace streams of tpu")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of the stream calls that compiled graphs make."""
    names: list[str] = []
    make = StreamCall.__call__

    def call(self: StreamCall) -> None:
        names.append(self.name)
        make(self)

    monkeypatch.setattr(StreamCall, "__call__", call)
    return names


def _synchronize(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.tpu.synchronize()
    return y + x


def _other_stream(x: torch.Tensor) -> torch.Tensor:
    stream = torch.tpu.Stream()
    stream.wait_stream(torch.tpu.current_stream())
    with torch.tpu.stream(stream):
        y = x * 2
    torch.tpu.current_stream().wait_stream(stream)
    return y + x


def _event(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    event = torch.tpu.current_stream().record_event()
    torch.tpu.Stream().wait_event(event)
    event.synchronize()
    return y + x


def _memory(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.record_stream(torch.tpu.Stream())
    return y + x


def _only_calls(x: torch.Tensor) -> torch.Tensor:
    torch.tpu.current_stream().synchronize()
    torch.tpu.current_stream().synchronize()
    return x * 3


_FUNCTIONS: dict[Callable[[torch.Tensor], torch.Tensor], list[str]] = {
    _synchronize: ["synchronize_device"],
    _other_stream: ["wait_stream", "wait_stream"],
    _event: ["record_event", "wait_event", "synchronize_event"],
    _memory: [],
    _only_calls: ["synchronize_stream", "synchronize_stream"],
}


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_calls_in_their_order(
    function: Callable[[torch.Tensor], torch.Tensor], calls: list[str]
) -> None:
    compiled = torch.compile(function, backend="tpu", fullgraph=True)
    for value in (1.0, 2.0):
        calls.clear()
        assert compiled(torch.full((2,), value, device="tpu")).tolist() == [3 * value] * 2
        assert calls == _FUNCTIONS[function]
    assert torch.tpu.metrics().graphs["compile"] == 1


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_gradients(function: Callable[[torch.Tensor], torch.Tensor], calls: list[str]) -> None:
    x = torch.ones(2, device="tpu", requires_grad=True)
    y = torch.compile(function, backend="tpu", fullgraph=True)(x)
    assert calls == _FUNCTIONS[function]
    y.sum().backward()
    assert x.grad is not None
    assert calls == _FUNCTIONS[function]
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_backward_pass_on_two_streams(calls: list[str]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.tpu.stream(torch.tpu.Stream()):
            y = x.sin()
        return y.cos()

    x = torch.ones(2, device="tpu", requires_grad=True)
    expected = torch.autograd.grad(function(x).sum(), x)
    for _ in range(2):
        torch._dynamo.reset()
        y = torch.compile(function, backend="tpu", fullgraph=True)(x)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x), expected)
    assert calls == []


def test_a_graph_from_the_cache_makes_the_calls(calls: list[str]) -> None:
    x = torch.ones(2, device="tpu")
    for _ in range(2):
        torch._dynamo.reset()
        assert torch.compile(_event, backend="tpu", fullgraph=True)(x).tolist() == [3.0, 3.0]
    assert calls == _FUNCTIONS[_event] * 2


def test_the_caller_s_events_are_recorded() -> None:
    start, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))

    def function(x: torch.Tensor) -> torch.Tensor:
        start.record()
        y = x @ x
        end.record()
        return y

    result = torch.compile(function, backend="tpu", fullgraph=True)(torch.ones(4, 4, device="tpu"))
    end.synchronize()
    assert start.elapsed_time(end) >= 0  # raises an error unless both events are recorded
    assert result.tolist() == [[4.0] * 4] * 4
