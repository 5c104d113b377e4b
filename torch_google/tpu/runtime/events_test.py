# SPDX-License-Identifier: Apache-2.0
"""Test events and streams while a long-running program executes."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from torch_google.tpu import _C
from torch_google.tpu.release import V2_6

# The number of matmuls in the long-running program, for each attempt at a test. 24 matmuls take
# at least 0.1 s.
_ATTEMPTS = [24 << attempt for attempt in range(5)]
_products = _ATTEMPTS[0]


class _TooLateError(Exception):
    """Raised if the long-running program finished before the test could query its state."""


@pytest.fixture(autouse=True)
def _nothing_is_on_its_way() -> Iterator[None]:
    torch.tpu.synchronize()
    yield
    torch.tpu.synchronize()


def _repeated(test: Callable[[], None]) -> Callable[[], None]:
    """Repeat a test with more matmuls each time the long-running program finishes too early.

    That happens if the machine is so busy that the test's thread falls behind.
    """

    @functools.wraps(test)
    def run() -> None:
        global _products
        for _products in _ATTEMPTS:
            _long()  # run once, so that the program is compiled before the test
            torch.tpu.synchronize()
            try:
                return test()
            except _TooLateError:
                torch.tpu.synchronize()
        raise AssertionError(f"{_products} matmuls always ended before the test asked for them")

    return run


def _long(x: torch.Tensor | None = None) -> torch.Tensor:
    """Start a long-running program whose result is `x` or, by default, an identity matrix."""
    x = torch.eye(768, device="tpu") if x is None else x
    eye = torch.eye(768, device="tpu")
    for _ in range(_products):
        x = x @ eye
    return x


def _is_reached(event: torch.tpu.Event | torch.tpu.Stream, product: torch.Tensor) -> bool:
    """Return `event.query()`, which must be called while the long-running program executes.

    Raises _TooLateError if the program has finished, because the result then proves nothing.
    """
    answer = event.query()
    if _C.value(product).is_ready():
        raise _TooLateError
    return answer


def _elapsed(begin: torch.tpu.Event, end: torch.tpu.Event, product: torch.Tensor) -> float:
    """Return the time between two events, measured while the long-running program executes.

    Raises _TooLateError if the program has finished, as `_is_reached` does.
    """
    elapsed = begin.elapsed_time(end)
    if _C.value(product).is_ready():
        raise _TooLateError
    return elapsed


@_repeated
def test_an_event_is_reached_when_the_work_before_it_is_done() -> None:
    before, after = torch.tpu.Event(), torch.tpu.Event()
    before.record()
    y = _long()
    after.record()
    assert before.query()
    assert not _is_reached(after, y)
    assert not _is_reached(torch.tpu.current_stream(), y)
    after.synchronize()
    assert (before.query(), after.query()) == (True, True)
    assert torch.tpu.current_stream().query()
    assert y.trace().item() == 768


@_repeated
def test_the_time_between_events_is_that_of_the_work() -> None:
    begin, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    before = time.perf_counter()
    begin.record()
    begin.synchronize()
    begun = time.perf_counter()
    product = _long()
    end.record()
    asked = time.perf_counter()
    assert not _is_reached(end, product)
    end.synchronize()
    elapsed = begin.elapsed_time(end) / 1e3  # a thread may record the end's time late
    ended = time.perf_counter()
    assert asked - begun - 1e-3 <= elapsed <= ended - before + 1e-3
    assert end.elapsed_time(begin) / 1e3 == -elapsed
    assert product.trace().item() == 768


@_repeated
def test_an_event_recorded_again_is_about_the_later_work() -> None:
    event = torch.tpu.Event()
    event.record()
    event.synchronize()
    product = _long()
    assert event.query()
    event.record()
    assert not _is_reached(event, product)
    del product
    event.synchronize()
    assert event.query()


@_repeated
def test_there_is_no_time_before_an_event_that_was_not_recorded_or_reached() -> None:
    begin, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    begin.record()
    error, message = (RuntimeError, "not marked") if V2_6 else (ValueError, "must be recorded")
    with pytest.raises(error, match=message):
        begin.elapsed_time(end)
    product = _long()
    end.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        _elapsed(begin, end, product)
    end.synchronize()
    assert begin.elapsed_time(end) > 0
    assert product.trace().item() == 768
    end = torch.tpu.Event()
    end.record()
    with pytest.raises(ValueError, match="timing"):
        begin.elapsed_time(end)


@_repeated
def test_streams_know_their_own_work() -> None:
    busy, idle = torch.tpu.Stream(), torch.tpu.Stream()
    with busy:
        product = _long()
    with idle:
        torch.ones(3, device="tpu")
    idle.synchronize()
    assert idle.query()
    assert not _is_reached(busy, product)
    busy.synchronize()
    assert busy.query()
    assert product.trace().item() == 768


@_repeated
def test_who_waits_for_a_stream_waits_for_the_events_that_it_waits_for() -> None:
    ahead, behind, other = (torch.tpu.Stream() for _ in range(3))
    with ahead:
        product = _long()
        done = ahead.record_event()
    behind.wait_event(done)
    assert not _is_reached(behind, product)
    assert other.query()
    later = behind.record_event()
    assert not _is_reached(later, product)
    with behind:
        result = product.trace()
    behind.synchronize()
    assert (done.query(), later.query(), behind.query(), ahead.query()) == (True,) * 4
    assert result.item() == 768

    with ahead:
        product = _long()
    behind.wait_stream(ahead)
    array = _C.value(product)
    del product  # no tensor has the value of `product`
    is_reached = behind.query()
    if array.is_ready():
        raise _TooLateError
    assert not is_reached
    behind.synchronize()
    assert ahead.query()


def test_a_thread_takes_over_from_another() -> None:
    stream, produced = torch.tpu.Stream(), threading.Event()
    shared: list[torch.Tensor] = []
    event = torch.tpu.Event()

    def produce() -> None:
        with stream:
            shared.append(_long(torch.full((768, 768), 2.0, device="tpu")))
            event.record(stream)
        produced.set()

    thread = threading.Thread(target=produce)
    thread.start()
    produced.wait()
    torch.tpu.current_stream().wait_event(event)
    total = (shared[0] + 1).sum()
    torch.tpu.current_stream().synchronize()
    assert event.query()
    thread.join()
    assert total.item() == 3 * 768 * 768


@_repeated
def test_a_device_is_waited_for_with_all_its_streams() -> None:
    event = torch.tpu.Event()
    with torch.tpu.Stream():
        product = _long()
        event.record()
    assert not _is_reached(event, product)
    torch.tpu.synchronize()
    assert event.query()
    assert product.trace().item() == 768


def test_a_tensor_may_say_that_a_stream_uses_it() -> None:
    own = torch.tpu.Stream()
    with torch.tpu.stream(own):
        x = torch.ones(3).to("tpu").mul(2)
    x.record_stream(torch.tpu.current_stream())
    assert x.tolist() == [2, 2, 2]


def test_contexts_of_streams() -> None:
    own, before = torch.tpu.Stream(), torch.tpu.current_stream()
    with torch.tpu.StreamContext(own):
        assert torch.tpu.current_stream() == own
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == own
    assert torch.tpu.current_stream() == before


def test_what_an_event_is_made_with() -> None:
    event = torch.tpu.Event(enable_timing=True, blocking=True)
    event.record()
    event.synchronize()
    with pytest.raises(TypeError, match=r"Event\(enable_timing=True\)"):
        torch.tpu.Event(True)
    with pytest.raises(ValueError, match="other processes"):
        torch.tpu.Event(interprocess=True)
