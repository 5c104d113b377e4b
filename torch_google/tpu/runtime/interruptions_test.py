# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C takes effect at the end of a block that delays it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from torch_google.tpu.runtime import interruptions


def _interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_block_ends_before_the_handler_runs() -> None:
    steps = []

    @interruptions.delayed()
    @interruptions.delayed()
    def block() -> None:
        _interrupt()
        steps.append("continued")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["continued"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interruption_ends_the_block() -> None:
    @interruptions.delayed()
    def block() -> None:
        _interrupt()
        _interrupt()
        pytest.fail("the second interruption was delayed")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Install a handler that returns, and return the list of the signals that it has handled."""
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    yield signals
    signal.signal(signal.SIGINT, before)


def test_a_handler_that_returns_handles_every_signal(handled: list[int]) -> None:
    """A program may finish its step at the first signal, and exit at the second one."""
    with interruptions.delayed():
        _interrupt()
        assert not handled
        _interrupt()
        assert len(handled) == 2
        _interrupt()
        assert len(handled) == 3
    assert len(handled) == 3


def test_the_first_signal_may_replace_the_handler_of_the_second(handled: list[int]) -> None:
    def first(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, lambda number, _: handled.append(number))

    signal.signal(signal.SIGINT, first)
    with interruptions.delayed():
        _interrupt()
        _interrupt()
        assert len(handled) == 1


def test_an_event_loop_sees_a_delayed_signal_once(handled: list[int]) -> None:
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno())
        try:
            with interruptions.delayed():
                _interrupt()
        finally:
            signal.set_wakeup_fd(before)
        assert reader.recv(10) == bytes([signal.SIGINT])
    assert handled == [signal.SIGINT]


def test_a_handler_that_the_block_installs_handles_the_signal(handled: list[int]) -> None:
    before = signal.getsignal(signal.SIGINT)
    own: list[int] = []
    with interruptions.delayed():
        _interrupt()
        previous = signal.signal(signal.SIGINT, lambda number, _: own.append(number))
    assert (own, handled) == ([signal.SIGINT], [])
    # Code that restores the previous handler after the block leaves no delay.
    signal.signal(signal.SIGINT, previous)
    _interrupt()
    assert len(handled) == 1
    with interruptions.delayed():
        _interrupt()
        assert len(handled) == 1
    assert len(handled) == 2
    signal.signal(signal.SIGINT, before)


def test_an_exception_before_the_block_restores_the_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another signal's handler can raise an exception between any two instructions."""
    install = signal.signal

    def install_and_raise(number: signal.Signals, handler: Any) -> None:
        install(number, handler)
        monkeypatch.undo()
        raise ValueError("of another handler")

    monkeypatch.setattr(signal, "signal", install_and_raise)
    with pytest.raises(ValueError, match="another"), interruptions.delayed():
        pytest.fail("the block ran")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_exception_in_the_block_becomes_the_context() -> None:
    @interruptions.delayed()
    def block() -> None:
        _interrupt()
        raise ValueError("of the block")

    with pytest.raises(KeyboardInterrupt) as raised:
        block()
    assert isinstance(raised.value.__context__, ValueError)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_sig_ign_and_sig_dfl_are_not_replaced(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interruptions.delayed():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_delay_nothing() -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with interruptions.delayed():
            inside.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    with pytest.raises(KeyboardInterrupt):
        _interrupt()
    done.set()
    thread.join()
