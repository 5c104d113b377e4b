# SPDX-License-Identifier: Apache-2.0
"""Test scoped settings: eager mode, precision and other per-thread settings."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from torch_google.tpu import _C

# For each setting: its constructor, its getter, and its values inside and outside a block.
BLOCKS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any, Any]] = {
    "eager_mode": (
        lambda: torch.tpu.eager_mode("fused"),
        torch.tpu.get_eager_mode,
        "fused",
        "strict",
    ),
    "precision": (lambda: torch.tpu.precision("high"), torch.tpu.get_precision, "high", "default"),
    "cpu_fallback": (lambda: torch.tpu.cpu_fallback(), _C.fallback, True, False),
    "cache_only": (lambda: torch.tpu.cache_only(), _C.cache_only, True, False),
}
blocks = pytest.mark.parametrize(("make", "read", "within", "outside"), BLOCKS.values(), ids=BLOCKS)


@blocks
def test_a_function_runs_in_its_block_each_time(
    make: Any, read: Any, within: Any, outside: Any
) -> None:
    @make()
    def work(n: int, *, fail: bool = False) -> list[Any]:
        """Return the values of the setting in this call and in `n` nested calls."""
        if fail:
            raise KeyError(read())
        return [read(), *(work(n - 1) if n else [])]

    assert work.__name__ == "work"
    assert work.__doc__ is not None
    for _ in range(2):
        assert work(3) == [within] * 4
        assert read() == outside
    with pytest.raises(KeyError, match=str(within)):
        work(0, fail=True)
    assert read() == outside


@blocks
def test_a_generator_is_in_the_block_while_it_runs(
    make: Any, read: Any, within: Any, outside: Any
) -> None:
    closed = []

    @make()
    def work() -> Generator[Any, str, None]:
        try:
            sent = yield read()
            yield sent, read()
        finally:
            closed.append(read())

    running = work()
    assert isinstance(running, Generator)
    assert next(running) == within
    assert read() == outside  # the setting does not leak to the caller
    assert running.send("sent") == ("sent", within)
    assert read() == outside
    running.close()
    assert (closed, read()) == ([within], outside)


@blocks
def test_one_object_is_entered_within_itself_and_by_threads(
    make: Any, read: Any, within: Any, outside: Any
) -> None:
    block: AbstractContextManager[None] = make()
    met, leave = threading.Barrier(2), threading.Event()
    values: list[Any] = []

    def elsewhere() -> None:
        values.append(read())
        with block:
            met.wait()
            leave.wait()
            values.append(read())
        values.append(read())

    thread = threading.Thread(target=elsewhere)
    with block, block:
        thread.start()
        met.wait()
        assert read() == within
    assert read() == outside
    leave.set()
    thread.join()
    assert values == [outside, within, outside]


@blocks
def test_what_waits_for_others_and_classes_are_refused(
    make: Any, read: Any, within: Any, outside: Any
) -> None:
    async def work() -> None: ...

    async def many() -> AsyncIterator[int]:
        yield 1

    for function in (work, many):
        with pytest.raises(TypeError, match="is asynchronous.*Write a `with` block"):
            make()(function)
    with pytest.raises(TypeError, match="is a class. Decorate its methods"):
        make()(type("Net", (), {}))
    assert read() == outside


def test_a_method_and_its_backward_pass_have_the_mode() -> None:
    modes: list[str] = []

    class Net(torch.nn.Module):
        @torch.tpu.eager_mode("fused")
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.register_hook(lambda grad: modes.append(torch.tpu.get_eager_mode()))
            modes.append(torch.tpu.get_eager_mode())
            return y.sum()

    x = torch.ones(3, device="tpu", requires_grad=True)
    loss = Net()(x)
    assert torch.tpu.get_eager_mode() == "strict"
    torch.tpu.eager_mode("debug")(loss.backward)()
    assert modes == ["fused", "debug"]
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3


def test_a_device_is_chosen_for_a_block_and_a_function() -> None:
    block = torch.tpu.device(0)
    with block, block:
        assert torch.tpu.current_device() == 0
    assert block(torch.tpu.current_device)() == 0
    assert torch.tpu.device_of(torch.ones(1))(torch.tpu.current_device)() == 0


def test_a_compiled_function_may_have_blocks() -> None:
    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x @ x
        with torch.tpu.precision("highest"):
            y = y @ x
        return decorated(y)

    @torch.tpu.eager_mode("fused")
    def decorated(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.eye(3, device="tpu") * 2
    assert work(x).sum().item() == 8 * 3 + 9
    assert (torch.tpu.get_precision(), torch.tpu.get_eager_mode()) == ("default", "strict")
