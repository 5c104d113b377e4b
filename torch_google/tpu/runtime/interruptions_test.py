# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C takes effect at the end of a block that delays it."""

from __future__ import annotations

import signal
import threading

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
